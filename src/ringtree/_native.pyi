"""The shared-memory engine: what the C++ core offers Python. Addresses are raw; whoever calls keeps buffers alive.

Long calls release the GIL and run signal handlers now and then, so Ctrl-C works. Errors are RuntimeError subclasses
raised as `ringtree.errors` maps them: the message is complete (where, which rank, what was expected).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

class PeerDied(RuntimeError):
    """A rank of the group ended; args: (message, rank)."""

    rank: int

class Mismatch(RuntimeError):
    """Two ranks called different things; the message names both sides."""

class TimedOut(RuntimeError):
    """A wait passed its deadline; the message says who waited for whom in which call."""

class Poisoned(RuntimeError):
    """The group failed before (the message says how) and can only be closed."""

DTYPES: dict[str, int]
"""Code of each element type; see ringtree.runtime.types."""

OPS: dict[str, int]
"""Code of each operation; see ringtree.runtime.types. Programs that do not reduce take -1."""

BUILD: str
"""Digest of the core's sources: processes that share memory must be of one build."""
INTERFACE: str
"""Digest of this file as it was when the module was built."""

def supported(dtype: int, op: int) -> bool:
    """Whether there is a kernel for that."""

def segment_bytes(ranks: int, slots: int, slot_bytes: int) -> int:
    """Size of a group's segment: header, records, staging slots, lanes and point-to-point lanes."""

def overflow_bytes(ranks: int, slots: int, slot_bytes: int) -> int:
    """The most bytes of a message of a program that is prepared for single copies; 0 where such programs are cut for
    slots, like all others."""

def reads_Bps() -> float:
    """Bytes a second, in pages of 4 KiB, that the kernel reads for this process in the memory of other ranks' processes;
    0 where it lets it read none, as far as it can say alone. The first call measures it, in a fraction of a
    millisecond."""

def device_sources() -> dict[str, str]:
    """The sources of the interpreter of devices' programs, by the names by which they include each other."""

def fail_at_exit() -> None:
    """Has the process end with code 1 where it would end with 0, once Python has ended; without glibc in any case."""

def process_identity() -> list[int]:
    """This process's id, its start in clock ticks after boot, and the inode of its pid namespace."""

def reserved_bytes(ranks: int, slots: int, slot_bytes: int, lazily: bool) -> int:
    """Bytes of shared memory that a group reserves when it is made: all but its n^2 lanes; `lazily`, as a group that is
    made from another or has one rank, not its staging slots either, which come last and each rank reserves by itself. The
    rest is reserved when it is first used; on kernels that cannot (before Linux 5.14), all of it is reserved at first."""

def observe(fd: int) -> dict[str, Any] | None:
    """The state of another process's world of ranks, read through a descriptor of its memory; None where it is no world's.
    `readable`: false where another version of ringtree made it; `failure`: the reason, "" where there is none; `members`,
    by rank: `state` (absent, attached, left, lost), `process`, `process_start` and `process_space` (as that process knows
    them), `calls` (collectives begun), `last` (of them, None where it cannot be read), `waits` (longer than 50 ms:
    `since_ns` and `deadline_ns` by the monotonic clock, `peer` in the world or -1, `thread`, `where`, `group`: its members'
    names, "" in the world itself). Not for a rank's own memory: closing the descriptor drops the rank's lock."""

class FlightRecord:
    """An operation of a flight recorder, which begins with `begun`; times are of the clock that tells the date."""

    recorder: Any
    name: str
    peer: int | None
    event: Any
    number: int
    record: int
    turn: int
    ticket: int
    tag: int
    begun_ns: int
    ended_ns: int
    failed: bool

    @classmethod
    def begun(
        cls,
        recorder: Any,
        name: str,
        number: int,
        inputs: Any,
        outputs: Any,
        describe: Callable[[Any], tuple[Any, ...]],
    ) -> Any:
        """A record of what begins now. `inputs` and `outputs` are lists of tensors: of a single one, whose type the
        engine knows, shape and type are kept, of others what `describe` returns of them."""

    def end(self) -> None:
        """Writes the time, once, and calls the event's `end`."""

    def side(self, which: int) -> tuple[Any, ...]:
        """The inputs (0) or the outputs (1): a tensor's shape and, behind it, the number of its element type; or what
        `describe` returned."""

class InheritedLiveness:
    """The members of a group to be, as a group that they are in knows them: by this it checks that they live."""

class Network:
    """The host of each rank of one group, and the wire to ranks on other hosts."""

def tcp(
    hosts: list[int],
    *,
    listener: int,
    group: int,
    peers: list[tuple[str, int, bytes, bytes, bytes, bytes]],
    connections: int,
    measures: bool,
) -> Network:
    """`hosts`: a number for each rank. `listener`: a listening socket, the wire's from then on. `group`: a digest of the
    group's key. `peers`: of each rank a numeric address and a port, the 32 bytes that this rank presents to it
    where it connects, those that it has to present here, and the same two where the other side has connected. `connections`: by which long payloads to a peer go; `measures`:
    at most, as many as are much faster."""

class UcxWorker:
    """One group's end of the wire over UCX. `library`: libucp, as a path or a name for dlopen; opened once a process, the
    first time. RuntimeError where it cannot be used, or where the process was forked from one that uses UCX."""

    def __init__(self, library: str) -> None: ...
    @property
    def address(self) -> bytes:
        """The bytes by which others reach it."""

def ucx(hosts: list[int], *, worker: UcxWorker, peers: list[tuple[bytes, bytes, bytes]]) -> Network:
    """As `tcp`, by UCX. The worker is the wire's from then on. `peers`: of each rank the address of its worker (empty:
    of this host), and the proofs."""

class Group:
    """One rank's endpoint in a group that shares the memory behind `fd` (a memfd of segment_bytes, zeroed at creation).

    `oversubscribed`: ranks outnumber cores, so yield at once. `threads`: the ranks are threads of one process, so the
    death watch (a record lock on byte `rank` of the memfd, held while the process lives) is off.
    Construction does not wait for the others; the first wait does. `fd` is the group's from then on. Closing any
    descriptor of the memfd drops the lock (POSIX), so a rank counts as dead only if its process is also gone from /proc;
    where ranks are in different pid namespaces, have no other descriptor of it.

    A group made from another, with the result of that one's `inherited`, watches by that one's lock: it keeps no descriptor. Its
    memory is reserved as it is used (OSError where there is no more), and each may be closed before the other.

    A wait writes a line to the standard error, which names the rank that it waits for, after `warn_share` of its time limit
    and at least `warn_least_s`; 0: never. Of several ranks that wait for one, one writes.

    A failure poisons the group: each rank raises it once, in the call it is in or the next, and Poisoned from then on.
    """

    def __init__(
        self,
        fd: int,
        rank: int,
        ranks: int,
        *,
        slots: int,
        slot_bytes: int,
        timeout_s: float,
        oversubscribed: bool,
        threads: bool,
        names: list[str],
        single_copy_bytes: int = 0,
        inherited: InheritedLiveness | None = None,
        network: Network | None = None,
        nodes: list[int] = [],
        cores: list[int] = [],
        warn_share: float = 0.0,
        warn_least_s: float = 0.0,
        processes: list[list[int]] = [],
        confirms: bool = False,
        takes_turns: bool = False,
    ) -> None:
        """`names`: for error messages, the world rank of each member as text. `single_copy_bytes`: the least of a message
        that peers read in this process's memory, where the kernel lets them; 0: none is. `network`: where ranks are on
        several hosts; the memory behind `fd` is shared by those of this host, and laid out for all. `nodes`: the NUMA
        node of each member, -1 where it is unknown; empty where all are on one. `cores`: the one that each rank of this
        machine goes back to now and then as it waits, and keeps for a moment where the others of that core wait as it
        does; -1 for ranks of others; empty: ranks stay where the kernel has them. `processes`: of a world, each member's
        process_identity(), all 0 where it is unknown: so a process is watched before it has made its endpoint. `confirms`:
        no call moves anything before all ranks have begun it, and it is the same on all. `takes_turns`: threads that call
        at once have their turns in order of arrival, where else the group fails."""

    def prepare(
        self,
        instructions: NDArray[np.int32],
        operands: NDArray[np.int32],
        sizes: NDArray[np.int64],
        input_offsets: NDArray[np.int64],
        output_offsets: NDArray[np.int64],
        scratch: int,
        window: int,
        dtype: int,
        op: int,
        collective: str,
        root: int,
        count: int,
        digest: int,
        single_copy: bool = False,
    ) -> int:
        """Binds an encoded program (ir.program.Program.encode) to sizes; returns a plan's number, which no other gets.

        All sizes are in elements. `sizes[label]`: chunk sizes on the whole vector. `input_offsets[i]`,
        `output_offsets[i]`: where chunk i of the rank's window starts. Scratch chunk i starts at i * max(sizes).
        `window`: the program is run ceil(max(sizes)/window) times, each time on that window of every chunk.
        `root` is -1 for none, `op` -1 where nothing is reduced; op avg divides the output by `ranks` at the end,
        and land, lor and lxor leave 0 or 1 even where nothing was joined.
        `single_copy`: peers read messages in this process's memory where they can; messages may have `overflow_bytes`.
        (collective, op, dtype, count, root, digest modulo 2^32) is the call's fingerprint. ValueError, naming the
        instruction, for a program that steps outside its memory or whose messages do not fit a slot.
        """

    def forget(self, plan: int) -> None:
        """Gives a plan's memory back, as soon as its queued calls have run; `call` knows it no more. ValueError from
        then on for whoever names it."""

    def run(self, plan: int, input: int, output: int) -> None:
        """Runs a plan on two addresses in the calling thread, after the group's pending asynchronous calls."""

    def run_timed(self, plan: int, input: int, output: int) -> float:
        """As `run`; returns the seconds of a core that copies and reductions took, without waits."""

    def start(self, plan: int, input: int, output: int) -> int:
        """Queues a plan on the group's own thread; returns a ticket. Tickets are done in order."""

    def start_timed(self, plan: int, input: int, output: int) -> int:
        """As `start`; the group keeps the time of the work until `work_s` asks for it."""

    def work_s(self, ticket: int) -> float | None:
        """Returns, once, the seconds of a core that copies and reductions of a call from `start_timed` took; None where
        it goes on, has failed, or was asked before."""

    def done(self, ticket: int) -> bool: ...
    def wait(self, ticket: int, timeout_s: float) -> bool:
        """Waits for a ticket; False when `timeout_s` (negative: none) passed first. Raises what the call raised."""

    def remember(
        self,
        collective: int,
        format: str,
        dtype: int,
        op: str,
        root: int,
        in_count: int,
        out_count: int,
        plan: int,
        offset: int | None = 0,
    ) -> None:
        """Binds `plan` to calls of this form in `call`, `call_at` and their like: on elements of the type `dtype`, or on
        buffers of an odd `format` ("": none). `offset`: the number of elements by which x begins after out where the two
        may overlap; None where they may not."""

    def call(self, collective: int, x: Any, out: Any, op: str, root: int) -> bool:
        """The fast path: if x and out are arrays of numpy, tensors or other buffers, whose elements lie in order (out
        writable), disjoint or apart as remembered, and a plan is remembered for them, runs it and returns True. Otherwise
        touches nothing and returns False. x or out may be None (in_count or out_count 0)."""

    def call_shaped(self, collective: int, x: Any, out: Any, op: str, root: int, shape: int) -> Any:
        """As `call`, for a result whose shape follows from that of x (engines.fast_methods): returns it, a new array
        of the kind and type of x where `out` is None, else `out`. None where nothing was done."""

    def remember_barrier(self, plan: int) -> None:
        """Binds `plan` to `call_barrier`."""

    def call_barrier(self) -> bool:
        """The fast path of a barrier, whose element is the group's own: as `call`."""

    def start_call(self, collective: int, x: Any, out: Any, op: str, root: int) -> int:
        """As `call`, for a call that is queued as by `start`: its ticket, until whose end the caller keeps the arrays; 0
        where nothing was done, -1 where the call has ended already, without an error."""

    def call_at(
        self,
        collective: int,
        dtype: int,
        op: str,
        root: int,
        x_address: int,
        x_count: int,
        out_address: int,
        out_count: int,
    ) -> bool:
        """The fast path by addresses and a type's code; 0 and 0 where there is no x or out. By position only."""

    def start_at(
        self,
        collective: int,
        dtype: int,
        op: str,
        root: int,
        x_address: int,
        x_count: int,
        out_address: int,
        out_count: int,
    ) -> int:
        """As `call_at`, for a call that is queued as by `start`: its ticket, or 0 where nothing was done."""

    def exchange(
        self, operations: list[tuple[bool, int, int, int, int, int, bool]], timeout_s: float
    ) -> list[tuple[int, int, int]]:
        """Point to point, all at once: (is_send, peer, tag, address, nbytes, dtype, at_most). Returns when all are
        complete: a receive when it is filled, a send when its memory may be reused; (source, tag, nbytes) of each.

        A receive's peer and tag may be -1, any; it takes the earliest message that fits, and a message goes to the
        earliest receive that fits. A dtype that differs is a Mismatch, and so is a length, but for a shorter message
        where `at_most`. Tags below -1 are the callers' own: no wildcard takes them. When time runs out before a message
        is half sent, the operations are taken back, TimedOut is raised and the group is as it was."""

    def receive(self, peer: int, tag: int, dtype: int, timeout_s: float) -> tuple[bytes, int, int]:
        """Receives a message of any length: its bytes, its source and its tag."""

    def send(self, x: Any, peer: int, tag: int) -> bool:
        """The fast path: if x is a C-contiguous buffer of a plain type and the rest is in order, sends it and returns
        True. Otherwise touches nothing and returns False."""

    def recv(self, x: Any, peer: int, tag: int) -> bool:
        """The fast path of a receive into x, which must be writable."""

    def recv_at_most(self, x: Any, peer: int, tag: int) -> int:
        """The fast path of a receive whose message may be shorter than x: its bytes, or -1 in place of False."""

    def post(self, operation: tuple[bool, int, int, int, int, int, bool]) -> int:
        """Begins one of exchange's operations and returns its number. Its memory must stay until it is complete, or the
        group closed. It goes on by itself, on a thread of the group's that sleeps while nothing can move."""

    def test(self, number: int) -> bool:
        """Whether an operation has ended: is complete, or never will be for the group has failed. Moves messages; never
        waits."""

    def complete(self, numbers: list[int], first: bool, timeout_s: float) -> int:
        """Waits until all of these operations are complete, or (`first`) one of them, and returns its position in the
        list. -1 when `timeout_s` passed first; below 0 it is the group's, and TimedOut is raised. All stay under way
        then."""

    def status(self, number: int) -> tuple[int, int, int]:
        """(source, tag, nbytes) of one that is complete; ValueError while it is not."""

    def drop(self, number: int) -> bool:
        """Forgets an operation, if it is complete. Otherwise False."""

    def probe(self, peer: int, tag: int, timeout_s: float, may_have_left: bool = False) -> tuple[int, int, int] | None:
        """(source, tag, nbytes) of the earliest message that has begun to arrive and that fits; waits as `complete`
        does, None in place of -1. It is still to be received. `may_have_left`: that who could send it has left the
        group in order is no error."""

    def add_region(self, fd: int, nbytes: int, offset: int, reserved: int | None = None) -> int:
        """Maps a shared memory `fd` of `nbytes` on behalf of every rank; returns the address of `offset`. What lies in a
        region is read by peers in place (from 4 KiB; less is copied). A call returns when all have read. All members add
        the same regions in the same order; one that finds no room (OSError) has counted it all the same. close() unmaps
        them. `reserved`: how many of the bytes exist; all of them if it is None. The rest is brought before it is
        written."""

    def prefault(self, address: int, nbytes: int) -> None:
        """Makes these bytes of a region exist, in large pages where there are. OSError where there is no room, or the
        kernel cannot (before Linux 5.14)."""

    def in_region(self, address: int, nbytes: int) -> bool:
        """Whether these bytes lie in a region that was added."""

    def add_window(self, fd: int, nbytes: int) -> tuple[int, int]:
        """A region of which every rank has a share of `nbytes`, one behind the other: the window's number, which is the same
        on all ranks, and the address of this rank's share. Each rank's share exists from its own call on."""

    def put(self, window: int, offset: int, peer: int, source: int, nbytes: int) -> None:
        """Copies memory at `source` to rank `peer`'s share of a window. ValueError where it does not lie within."""

    def get(self, window: int, offset: int, peer: int, target: int, nbytes: int) -> None:
        """Copies from rank `peer`'s share of a window to memory at `target`."""

    def signal(self, peer: int, index: int) -> None:
        """Adds one to the signals (0..7) of that index from this rank to `peer`. Who waits for it sees what this thread
        wrote before it."""

    def wait_signal(self, peer: int, index: int, count: int, timeout_s: float) -> None:
        """Waits for `count` signals from `peer` beyond those waited for before. TimedOut leaves the group usable."""

    def counters(self) -> NDArray[np.int64]:
        """[ranks, 2]: bytes of payload received from each peer, and messages, since the last reset. Those of `exchange` and
        its like count when a receive is complete; what a rank sends itself does not."""

    def peers(self) -> list[tuple[str, int, float]]:
        """The state of each member as this rank knows it (running, left, died), and this rank's waits for it of more than
        2 ms: how many, and their seconds together."""

    def reset_counters(self) -> None: ...
    @property
    def slots_open(self) -> int:
        """Staging slots of this rank that a call has taken and not closed: 0 between calls."""

    def known(self, key: int) -> bytes | bool | None:
        """The value that a rank of the group has published for a key (64 bits, not 0). True: nothing, and this rank has
        claimed it and is to publish; False: another rank has claimed it, and not published yet; None: there is no room
        for the key."""

    def missing_claimant(self, key: int) -> int:
        """The rank that has claimed a key and left the group before it published; -1: there is none."""

    def publish(self, key: int, value: bytes) -> bool:
        """Publishes the value of a key that this rank has claimed: up to 496 bytes, a longer one as b"". b"" may be
        published by any rank. The first value stays; whether that is this one."""

    def record(self, most_events: int) -> None:
        """Records this rank's events in collective calls from the next one on, anew, and at most so many: further ones
        are counted. 0 ends it and forgets it. It does not wait for a call that runs to end, to begin it does."""

    def recorded(
        self,
    ) -> (
        tuple[
            NDArray[np.int32],
            NDArray[np.float64],
            NDArray[np.float64],
            NDArray[np.int64],
            NDArray[np.int32],
            NDArray[np.int32],
            NDArray[np.int32],
            list[tuple[str, int]],
            int,
        ]
        | None
    ):
        """The events recorded so far, in the order in which they happened: columns kind, start_s, end_s, nbytes, peer,
        chunk and call of ringtree.ir.trace, seconds of CLOCK_MONOTONIC; what `call` counts, as (text, digest modulo
        2^32); and how many events were dropped. None where nothing is recorded. At any time, also when the group has
        failed.

        A rank's events cover a call from its beginning to its end without gaps, but for releases that wake a peer. A SEND
        has no length, nor has what copies or reduces up to 1 KiB. A SEND's time is that of the event before it; of the first
        one of a call, right after the message is out."""

    def recorded_messages(self) -> Any:
        """The recorded events of messages between two ranks, in the order in which each was done with, by whichever
        thread. A SEND is from handing the message over until its last byte is out; a WAIT from when the program waits
        for any message, and the one before it has come, until it is there, no time where the program does not wait; a
        STALL as long as a send that did not go out at once is waited for. `chunk` is the message's number among those
        of its pair of ranks, modulo 2^31, and the digest its tag. What a rank sends itself is not recorded. None where
        nothing is recorded."""

    def inherited(self, ranks: list[int]) -> InheritedLiveness:
        """The members with these ranks, for a group made of them in their order."""

    def check_liveness(self, what: str, ranks: list[int], absent: list[int]) -> None:
        """Checks the members that a wait in `what` is for: raises if one has died, or the group has failed, or one has
        left that has not come yet. `absent`: the positions of those in `ranks`."""

    def begin_wait(self, what: str, rank: int, timeout_s: float) -> int:
        """Writes down a wait elsewhere, in `what`, for a member, so that others who wait for this rank find whom it waits
        for. Returns its place, for `end_wait`; -1 where there is none."""

    def end_wait(self, place: int, gave_up: bool) -> None:
        """The wait has ended, or ends in vain, which others can read for a while."""

    def give_up(self, text: str, ranks: list[int]) -> str:
        """Gives up a wait elsewhere for members with these ranks, by an error of that text. Returns the text with the
        cause, where this host shows it: `rank 4 did not come: its process is stopped (rank 2 waits for rank 4)`. Peers
        whose calls end because this process then closes its groups have the cause in their errors."""

    def fail_if_bereft(self, what: str) -> None:
        """Fails the group for those who still wait in it, if one of its ranks has died or left by an error; raises
        nothing. For a rank that makes no more calls in it, and waits elsewhere, in `what`: an error that it has just
        raised is the first cause of its end from here on."""

    def poison(self, message: str) -> None:
        """Fails the group for every member, with this message. From any thread; waits of others end within milliseconds."""

    def enter_call(self, plan: int) -> None:
        """Begins a call whose program a device runs: of the plan, that of this group's with the same arguments, which may
        have no instructions. Fails the group where another thread is in a call."""

    def announce(self, plan: int) -> None:
        """The call is next: raises where the group has failed, and Mismatch where a neighbouring rank's call of the same
        number, as far as it has begun, is another. By one thread at a time."""

    def leave_call(self) -> None:
        """Ends what this thread has entered."""

    def report_timeout(self, text: str, ranks: list[int]) -> None:
        """Fails the group for every member: this rank gave up a wait for members with these ranks. Raises nothing, and
        `check_liveness` raises it; so does the next."""

    def report_mismatch(self, text: str) -> None:
        """Fails the group for every member: of the last calls that were announced, the first that differs is named, and
        `text` where none is known any more."""

    def is_lost(self, what: str, ranks: list[int], absent: list[int]) -> bool:
        """Whether `check_liveness` would raise, which it still does afterwards. For one thread that watches."""

    def tell_cause(self, text: str) -> None:
        """Reports why this rank leaves, for peers that find out that it has left. Its first report counts, also
        of a failure that it heard of in another group."""

    failure: str
    """The failure of the group in words, "" where it has not failed. Raises nothing."""

    def arrive(self, turn: int, ready: bool, shunned: list[int]) -> None:
        """This survivor comes to a turn of the agreement on who goes on, later than its last. `ready`: whether it has
        done what the turn before asked for. It goes on without `shunned`. In a failed group, too, as the next three."""

    def arrivals(self) -> list[tuple[int, bool, bool]]:
        """A row for each rank: the last turn it came to, 0 for none; `ready` there; whether a survivor shuns it."""

    def decide(self, turn: int, made: bool, members: list[int]) -> bool:
        """Decides a turn, the one after the last that was decided, for all. False: another rank has."""

    def decision(self) -> tuple[int, bool, list[int]]:
        """The last decision: its turn (0: none), and what `decide` took."""

    def set_timeout(self, timeout_s: float) -> None:
        """The limit of waits that begin from now on, in seconds. Any thread may set it."""

    def close(self) -> None:
        """Leaves: stops the threads. Peers that still wait for this rank get PeerDied saying it left; a thread of this
        process that is in a call gets Poisoned. Memory is given back with this object."""

    caller: int
    """The thread that made the last call or exchanged the last message here, as threading.get_ident(); 0: none did."""

    is_within_call: bool
    """Whether this is a signal's handler within a call of the group by the same thread: `close` would wait for it."""

    calls: int
    """Collective calls made so far: the sequence number in messages."""

class DeviceCalls:
    """A rank's launches of device programs, and the calls that are like earlier ones: these are one native call up to
    the launch. It launches again what was launched before, while no call is queued and none has failed; of all else,
    and where another thread launches, its fast path says that nothing is done. As a context manager it is the turn of
    who launches: one thread's at a time.

    `status`: the address here of what calls write (csrc/device/program.h, Status). `device`: the number of the device of
    CUDA whose memory arrays are in, as torch's tensors are, -1 for the host's.
    `launch_kernel`: the address of cuLaunchKernel; 0: on this machine's processor, without the GIL."""

    def __init__(self, ranks: int, status: int, device: int = -1, launch_kernel: int = 0) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...
    def remember(
        self,
        collective: int,
        format: str,
        dtype: int,
        op: str,
        root: int,
        in_count: int,
        out_count: int,
        plan: int,
        offset: int | None = 0,
    ) -> None:
        """As Group.remember; a plan is any number above 0."""

    def launched(
        self,
        plan: int,
        call: bytes,
        kernel: int,
        threads: int,
        input_bytes: int,
        output_bytes: int,
        text: str,
        announced: int = -1,
    ) -> None:
        """A plan was launched so, and may be again, on other arrays. `call`: a Call; `input_bytes` and `output_bytes`: of
        its arrays, what it touches; `text`: the call in words; `announced`: the host group's plan."""

    def attach(self, host: Group) -> None:
        """Calls are announced in that group from now on, and fail as it does."""

    def run_first(self, call: bytes, announced: int) -> None:
        """Runs a Call on this machine's processor, without the GIL. A signal handler's exception ends it, and the group."""

    def forget(self, plan: int) -> None:
        """Drops what was remembered of a plan, and its launch."""

    def call(self, collective: int, x: Any, out: Any, op: str, root: int) -> bool:
        """As Group.call, and the next as Group.call_shaped: True where the call was launched, which may end later."""

    def call_shaped(self, collective: int, x: Any, out: Any, op: str, root: int, shape: int) -> Any: ...
    def start_call(self, collective: int, x: Any, out: Any, op: str, root: int) -> int:
        """0: started calls are marked by Python."""

    def find_at(
        self,
        collective: int,
        dtype: int,
        op: str,
        root: int,
        x_address: int,
        x_count: int,
        out_address: int,
        out_count: int,
    ) -> int:
        """The plan that serves a call by addresses, launched before or not; 0: none does."""

    def taken_runs(self) -> list[tuple[int, int]]:
        """The plans that the fast path has launched since the last time, and how often each."""

    def add_region(self, begin: int, end: int, number: int) -> None:
        """Memory from an address to another that peers reach as a region."""

    def place(self, address: int) -> int:
        """The place by which peers find an address (csrc/device/program.h); -1: they do not reach it."""

    def queue(self, calls: int) -> None:
        """Adds to the calls that are queued, which come before later ones."""

    def await_launch(self) -> None:
        """Waits, without the GIL, until there is a launch that has not ended, or `end_awaiting` was called."""

    def end_awaiting(self) -> None: ...
    def close(self) -> None:
        """Launches nothing from now on."""

    launches: int
    """Launches so far: whoever launches by other ways counts here before it does."""
    stream: int
    """The stream of the last launch; on another, the fast path launches nothing."""
    limit_ns: int
    """The limit of one wait, of calls that begin from now on."""
    text: str
    """The last call that began, in words."""
    stopped: bool
    """Whether waits were ended, of later calls too: nothing is launched any more."""
    @property
    def ended(self) -> int:
        """Launches that have ended, modulo 2^32."""

    @property
    def idle(self) -> bool:
        """Whether all that was launched has ended."""

    @property
    def queued(self) -> int: ...
    @property
    def runs(self) -> int:
        """Calls that the fast path has launched."""

class DeviceDoor:
    """The fast path of a host's group beside which there is one on a device: for tensors of CUDA the device's, else the
    host's."""

    def __init__(self, host: Group, device: DeviceCalls) -> None: ...
    def call(self, collective: int, x: Any, out: Any, op: str, root: int) -> bool: ...
    def call_shaped(self, collective: int, x: Any, out: Any, op: str, root: int, shape: int) -> Any: ...
    def start_call(self, collective: int, x: Any, out: Any, op: str, root: int) -> int: ...

class FastMethod:
    """A method of a communicator's class that makes calls like earlier ones by `call`, `call_shaped` or `call_barrier`
    of its instance, before Python makes a frame; all else is the function's. `roles` and `shape` as in
    engines.fast_methods. The function's positional parameters are of x, op, root and out. ValueError: for others, or
    unknown roles."""

    def __init__(self, function: Callable[..., Any], collective: int, roles: str, shape: int, /) -> None: ...
    def __call__(self, *args: Any, **options: Any) -> Any: ...
