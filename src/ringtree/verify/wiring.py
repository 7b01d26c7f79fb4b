"""The pairs that a set of programs fixes: the signal of each wait, the slot of each instruction.

Every lane is written by one thread and read by one, in their program order, so its k-th wait takes its k-th signal for
any timing; and slots are taken in ring order. So all pairs are found by reading, before the play, and the programs'
progress depends on counters only. Registers belong to the thread that names them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ringtree.ir.collective import collective
from ringtree.ir.program import Instruction, Kind, Operand, Program, Space, format_instruction
from ringtree.verify.wording import ProofError

BARE = -1
"""The payload of a bare signal."""


SEND, TAKE, GIVE_BACK, FILL, LOOK, AFTER = range(6)
"""Events at which a thread may wait or release another. Their numbers: the first three a lane; FILL (a slot is
taken) and LOOK (the sender reads its own slot) a payload; AFTER an index into Wiring.after."""

COPY, REDUCE, SIGNAL, WAIT = (int(k) for k in (Kind.COPY, Kind.REDUCE, Kind.SIGNAL, Kind.WAIT))
INPUT, SLOT, MESSAGE = (int(s) for s in (Space.INPUT, Space.SLOT, Space.MESSAGE))


@dataclass(slots=True)
class WiredThread:
    """One thread of one rank, and its steps that affect others as (step, event, number)."""

    rank: int
    number: int
    code: tuple[Instruction, ...]
    events: list[tuple[int, int, int]] = field(default_factory=list)


@dataclass(slots=True)
class Lane:
    """Messages from thread `sender` to thread `receiver` (-1: not known yet). `sent[k]` is the k-th one's payload,
    `expected[k]` whether the k-th wait wants one; `payloads` are the sent without the bare ones."""

    number: int
    source: int
    target: int
    channel: int
    sender: int = -1
    receiver: int = -1
    sent: list[int] = field(default_factory=list)
    expected: list[bool] = field(default_factory=list)
    payloads: list[int] = field(default_factory=list)
    awaited: int = 0  # waits that want a payload
    released: int = 0

    def __str__(self) -> str:
        return f"rank {self.source} to rank {self.target}" + (f" on channel {self.channel}" if self.channel else "")


@dataclass(slots=True)
class Wiring:
    """Threads and lanes by number; at[r][i] is the number of the i-th thread of programs[r].

    A *payload* is one filling of a slot. pools[p] lists payloads in the order in which they take the slots of one
    ring: all of a rank's where every rank has one thread, else those of one lane. positions[x] are payload x's
    (pool, ordinal) pairs, and uses[x] counts the conditions for its slot to be free: one release by each rank it was
    signalled to and the sender's own looks.
    """

    programs: Sequence[Program]
    threads: list[WiredThread] = field(default_factory=list)
    at: list[list[int]] = field(default_factory=list)
    lanes: list[Lane] = field(default_factory=list)
    pools: list[list[int]] = field(default_factory=list)
    positions: list[list[tuple[int, int]]] = field(default_factory=list)
    uses: list[int] = field(default_factory=list)
    after: list[tuple[int, int]] = field(default_factory=list)
    threaded: bool = False  # some rank has several threads
    one_sided: bool = False  # some operand is a peer's memory
    in_place: bool = False  # input and output are one memory

    def where(self, thread: int, step: int) -> str:
        """`rank 1 step 4 (wait 0 message0)`; the thread is named where there are several."""
        t = self.threads[thread]
        number = f" thread {t.number}" if self.threaded else ""
        return f"rank {t.rank}{number} step {step} ({format_instruction(t.code[step])})"

    @property
    def name(self) -> str:
        """The program, its collective and its number of ranks, for errors."""
        p = self.programs[0]
        return f"{p.name} {p.collective} over {p.ranks} ranks"


def wire(programs: Sequence[Program], *, in_place: bool = False) -> Wiring:
    """Reads the programs (sorted by rank). ProofError: if they cannot be wired, for a message without a signal or
    without a wait, a slot sent before it is filled, a message never released, an operand outside its buffer, a write to
    the input."""
    w = Wiring(programs, threaded=any(len(p.threads) > 1 for p in programs), in_place=in_place)
    for p in programs:
        w.at.append(list(range(len(w.threads), len(w.threads) + len(p.threads))))
        w.threads += [WiredThread(p.rank, i, code) for i, code in enumerate(p.threads)]
    lengths = [_lengths(p) for p in programs]
    index: dict[tuple[int, int, int], Lane] = {}
    for number in range(len(w.threads)):
        _Reader(w, number, lengths, index).read()
    for lane in w.lanes:
        _check_lane(w, lane)
        if w.threaded:
            for ordinal, x in enumerate(lane.payloads):
                w.positions[x].append((len(w.pools), ordinal))
            w.pools.append(lane.payloads)
    return w


def _lengths(p: Program) -> tuple[int, int, int]:
    """The lengths of a rank's input, output and scratch."""
    promise, where = collective(p.collective), (p.rank, p.ranks, p.chunks, p.root or 0)
    return len(promise.precondition(*where)), len(promise.postcondition(*where)), p.scratch


def _check_lane(w: Wiring, lane: Lane) -> None:
    if len(lane.sent) != len(lane.expected):
        raise ProofError(
            f"{w.name}: {lane}: {len(lane.sent)} signals and {len(lane.expected)} waits; expected as many",
            rank=lane.target,
        )
    for k, (payload, wanted) in enumerate(zip(lane.sent, lane.expected, strict=True)):
        if (payload != BARE) != wanted:
            words = "a bare signal", "a message"
            raise ProofError(
                f"{w.name}: {lane}: signal {k} is {words[payload != BARE]}; its wait expects {words[wanted]}",
                rank=lane.target,
            )
    if lane.released < len(lane.payloads):
        raise ProofError(
            f"{w.name}: {lane}: {len(lane.payloads)} messages and {lane.released} releases; expected every message to "
            "be released, or its slot is lost to the calls that follow",
            rank=lane.target,
        )


class _Reader:
    """Reads one thread into the wiring."""

    def __init__(
        self,
        w: Wiring,
        number: int,
        lengths: Sequence[tuple[int, int, int]],
        index: dict[tuple[int, int, int], Lane],
    ) -> None:
        self.w, self.number, self.lengths, self.index = w, number, lengths, index
        self.thread = w.threads[number]
        self.rank = self.thread.rank
        self.slots: dict[int, int] = {}  # register -> the payload in it
        self.open: set[int] = set()  # payloads not yet signalled
        self.messages: dict[int, tuple[Lane, int]] = {}  # register -> lane, number of its earlier payloads
        self.ring = -1
        if not w.threaded:
            self.ring = len(w.pools)
            w.pools.append([])

    def read(self) -> None:
        events, code, lengths = self.thread.events, self.thread.code, self.lengths[self.rank]
        for step, i in enumerate(code):
            kind, targets, sources = i[:3]
            for dependence in i.after:
                events.append((step, AFTER, self._after(step, dependence)))
            if kind <= REDUCE:
                if not len(targets) == len(sources) == 1 or targets[0][3] != sources[0][3]:
                    self._check_shape(step, i)
                for o in sources:
                    if o[0] >= SLOT:
                        self._look(step, o)
                    elif o[4] >= 0 or o[1] < 0 or o[1] + o[3] > lengths[o[0]]:
                        self._check_range(step, o)
                for o in targets:
                    if o[0] >= SLOT:
                        self._fill(step, o)
                        continue
                    if o[4] >= 0 or o[1] < 0 or o[1] + o[3] > lengths[o[0]]:
                        self._check_range(step, o)
                    if o[0] == INPUT and not self.w.in_place:
                        raise self.refuse(
                            step, "writes the input; expected the output or scratch (or a proof in place)"
                        )
            elif kind == SIGNAL:
                events.append((step, SEND, self._signal(step, i)))
            elif kind == WAIT:
                events.append((step, TAKE, self._wait(step, i)))
            else:
                events.append((step, GIVE_BACK, self._release(step, i)))

    def refuse(self, step: int, problem: str) -> ProofError:
        return ProofError(f"{self.w.name}: {self.w.where(self.number, step)}: {problem}", rank=self.rank)

    def _check_shape(self, step: int, i: Instruction) -> None:
        if not i.targets or not i.sources or (i.kind == COPY and len(i.sources) > 1):
            raise self.refuse(step, "expected targets, and one source to copy or several to reduce")
        if len({o.count for o in (*i.targets, *i.sources)}) > 1:
            raise self.refuse(step, "its operands differ in their number of chunks")

    def _check_range(self, step: int, o: Operand) -> None:
        space, index, _, count, owner = o
        if owner < 0:
            owner = self.rank
        elif owner >= len(self.lengths):
            raise self.refuse(step, f"no rank {owner}; expected 0..{len(self.lengths) - 1}")
        elif owner != self.rank:
            self.w.one_sided = True
        if index < 0 or count < 1 or index + count > self.lengths[owner][space]:
            has = self.lengths[owner][space]
            raise self.refuse(step, f"rank {owner} has {has} chunks of {Space(space).name.lower()}")

    def _after(self, step: int, dependence: tuple[int, int]) -> int:
        siblings = self.w.at[self.rank]
        thread, other = dependence
        if not 0 <= thread < len(siblings) or not 0 <= other < len(self.w.threads[siblings[thread]].code):
            raise self.refuse(step, f"comes after {thread}.{other}, which does not exist")
        self.w.after.append((siblings[thread], other))
        return len(self.w.after) - 1

    def _look(self, step: int, o: Operand) -> None:
        if o.rank >= 0:
            raise self.refuse(step, "slots and messages are one's own; expected no rank")
        if o.space == MESSAGE:
            lane, ordinal = self.messages.get(o.index, (None, 0))
            if lane is None:
                raise self.refuse(step, f"message{o.index} was never waited for")
            if ordinal < lane.released:
                raise self.refuse(step, f"message{o.index} was released before")
            return
        if o.index not in self.slots:
            raise self.refuse(step, f"slot{o.index} was never written")
        payload = self.slots[o.index]
        self.w.uses[payload] += 1
        self.thread.events.append((step, LOOK, payload))

    def _fill(self, step: int, o: Operand) -> None:
        if o.space == MESSAGE or o.rank >= 0:
            raise self.refuse(step, "writes a message or a peer's slot; expected one's own memory or slot")
        if self.slots.get(o.index) in self.open:
            return
        w, payload = self.w, len(self.w.uses)
        w.uses.append(0)
        w.positions.append([])
        if self.ring >= 0:
            w.positions[payload].append((self.ring, len(w.pools[self.ring])))
            w.pools[self.ring].append(payload)
        self.slots[o.index] = payload
        self.open.add(payload)
        self.thread.events.append((step, FILL, payload))

    def _lane(self, step: int, source: int, target: int, channel: int) -> Lane:
        lane = self.index.get((source, target, channel))
        if lane is None:
            peer = target if source == self.rank else source
            if not 0 <= peer < len(self.w.programs):
                raise self.refuse(step, f"no rank {peer}; expected 0..{len(self.w.programs) - 1}")
            lane = self.index[source, target, channel] = Lane(len(self.w.lanes), source, target, channel)
            self.w.lanes.append(lane)
        return lane

    def _signal(self, step: int, i: Instruction) -> int:
        lane = self._lane(step, self.rank, i.peer, i.channel)
        if lane.sender not in (-1, self.number):
            raise self.refuse(step, f"another thread also signals on the lane from {lane}; expected one")
        lane.sender = self.number
        payload = BARE
        if i.register >= 0:
            if i.register not in self.slots:
                raise self.refuse(step, f"slot{i.register} was never written")
            payload = self.slots[i.register]
            self.open.discard(payload)
            self.w.uses[payload] += 1
            lane.payloads.append(payload)
        lane.sent.append(payload)
        return lane.number

    def _wait(self, step: int, i: Instruction) -> int:
        lane = self._lane(step, i.peer, self.rank, i.channel)
        if lane.receiver not in (-1, self.number):
            raise self.refuse(step, f"another thread also waits on the lane from {lane}; expected one")
        lane.receiver = self.number
        if i.register >= 0:
            self.messages[i.register] = lane, lane.awaited
            lane.awaited += 1
        lane.expected.append(i.register >= 0)
        return lane.number

    def _release(self, step: int, i: Instruction) -> int:
        lane = self._lane(step, i.peer, self.rank, i.channel)
        if lane.receiver not in (-1, self.number) or lane.released >= lane.awaited:
            raise self.refuse(step, f"holds no message from rank {i.peer}")
        lane.released += 1
        return lane.number
