"""A rank's endpoint in a group whose programs run on a processor with memory of its own."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ringtree.errors import Poisoned
from ringtree.ir.plain_messages import PlainMessages
from ringtree.runtime.engines.device.call_texts import call_text, digest_of
from ringtree.runtime.engines.device.element_types import types_of
from ringtree.runtime.engines.device.encoding import Ints, ProgramEncoder
from ringtree.runtime.engines.device.fast_path import RepeatedCalls
from ringtree.runtime.engines.device.flagging import VECTOR_BYTES, fits, shares
from ringtree.runtime.engines.device.lanes import CALL, ENDED_AT, STOP_AT, LaneLayout, OwnLayout
from ringtree.runtime.engines.device.plan import DevicePlan
from ringtree.runtime.engines.device.processor import LATE, MISMATCH, DeviceProcessor
from ringtree.runtime.engines.device.tables import Meaning, flagged_tables, program_tables
from ringtree.runtime.engines.device.watch import Watch
from ringtree.runtime.engines.protocols import Land
from ringtree.runtime.types import OPS, Dtype

if TYPE_CHECKING:
    from ringtree.runtime.engines.engine import GroupParameters

FEW_THREADS, MOST_THREADS, FEW_BYTES = 64, 512, 1 << 10
"""Threads of a block, and the bytes of a chunk up to which they are few."""
BLOCK_BYTES, FEWEST_THREADS = 1 << 13, 32
"""Bytes of a call whose messages are flagged, for each thread block that works on it, at least, and the fewest threads
of a block. All other calls have all blocks: a block has the same part of a slot in each of them."""
OP_NAMES = {code: name for name, code in OPS.items()}


class DeviceEndpoint(RepeatedCalls):
    """See ringtree._native.Group for the contract of its methods; what is not here is the host endpoint's."""

    takes_landings = True

    def __init__(self, host: Any, processor: DeviceProcessor, parameters: GroupParameters, lanes: LaneLayout) -> None:
        super().__init__(host, processor, parameters.ranks)
        self.rank, self.ranks, self.names = parameters.rank, parameters.ranks, parameters.names
        self._timeout_s = parameters.timeout_s
        self._native.limit_ns = int(self._timeout_s * 1e9)
        self._lanes, own = lanes, OwnLayout(lanes)
        self._own = processor.take(own.nbytes)
        self._counters_at, self._regions_at = self._own + own.counters, self._own + own.regions
        self._regions: list[list[int]] = []
        self._add_region(processor.share(lanes.nbytes), 0)
        processor.write(self._own, own.describe(self.rank, self._own, processor.takes_turns))
        processor.stop_word, processor.ended_word = self._own + STOP_AT, self._own + ENDED_AT
        processor.tolls = self._regions[0][self.rank] + lanes.tolls
        self._made = 0
        self._scratch, self._scratch_bytes = 0, 0
        self._watch = Watch(host, processor, self.ranks, self.rank, self._late)
        self._thread: ThreadPoolExecutor | None = None
        self._tickets: dict[int, Future[None] | Any] = {}
        self._ticket = 0

    @property
    def device(self) -> int:
        """The number of the processor's device."""
        return int(getattr(self._processor, "number", 0))

    # -- programs

    def prepare(
        self,
        instructions: NDArray[np.int32],
        operands: NDArray[np.int32],
        sizes: Ints,
        input_offsets: Ints,
        output_offsets: Ints,
        scratch: int,
        window: int,
        dtype: int,
        op: int,
        collective: str,
        root: int,
        count: int,
        digest: int,
        single_copy: bool = False,
        lands: tuple[Land, ...] = (),
        plain: PlainMessages | None = None,
    ) -> int:
        """As Group.prepare. `lands`: the messages that may be written where their receivers would copy them. `plain`:
        of the programs of all ranks."""
        kind, known = Dtype(dtype), collective.split(" ")[0]
        encoder = ProgramEncoder(
            instructions, operands, sizes, input_offsets, output_offsets, window, known, self.ranks, lands
        )
        text = call_text(collective, OP_NAMES.get(op, ""), kind.label, count, root)
        meaning = Meaning(kind, op, digest_of(text, digest))
        nbytes = int(sizes.sum()) * kind.itemsize
        shared = shares(sizes, max(1, min(self._lanes.blocks, nbytes // BLOCK_BYTES)))
        flagged = self._flags(nbytes, encoder.windows) and fits(plain, shared, kind.itemsize, self._lanes.flagged_bytes)
        blocks = len(shared.begin) if flagged else self._lanes.blocks if nbytes else 1
        part_bytes = shares(np.array([encoder.window]), blocks).part * kind.itemsize
        code = encoder.encode(kind.itemsize, self._processor.least_lying_bytes)
        if flagged:
            tables, each = flagged_tables(encoder, code, shared, scratch, meaning, self.rank, self._lanes)
        else:
            self._check_slot(encoder.widest, part_bytes, blocks)
            tables, each = program_tables(encoder, code, meaning)
        plan = DevicePlan(
            self._put(tables),
            each,
            code,
            encoder.windows,
            types_of(kind, OP_NAMES[op]) if op >= 0 else None,
            blocks,
            _threads(flagged, part_bytes, encoder.window * kind.itemsize),
            len(code.instructions),
            code.waits,
            code.sent,
            scratch,
            scratch * blocks * part_bytes,
            (code.extents[0] * kind.itemsize, code.extents[1] * kind.itemsize),
            text,
            not self._processor.takes_turns,
            flagged,
            self._announced(sizes, input_offsets, output_offsets, dtype, op, collective, root, count, digest),
        )
        self._made += 1
        self._plans[self._made] = plan
        return self._made

    def _announced(self, *arguments: Any) -> int:
        """The host group's plan by which calls of such arguments are announced; it moves nothing."""
        sizes, input_offsets, output_offsets, *rest = arguments
        none = np.empty((0, 7), np.int32), np.empty((0, 4), np.int32)
        return int(self.host.prepare(*none, sizes, input_offsets, output_offsets, 0, 0, *rest))

    def _flags(self, nbytes: int, windows: int) -> bool:
        """Whether calls of so many bytes have flagged messages. Without a byte, nothing would be waited for."""
        return 0 < nbytes <= self._processor.most_flagged_bytes and windows == 1 and not self._processor.takes_turns

    def _put(self, data: bytes) -> int:
        address = self._processor.take(len(data))
        self._processor.write(address, data)
        return address

    def _check_slot(self, chunks: int, part_bytes: int, blocks: int) -> None:
        if chunks * part_bytes > self._lanes.slot_stride // blocks // 16 * 16:
            raise ValueError(
                f"a message of {chunks} chunks of {part_bytes} bytes a block does not fit a slot of "
                f"{self._lanes.slot_bytes} bytes"
            )

    def run(self, plan: int, input: int, output: int) -> None:
        """As Group.run; on a device, begins the program on the caller's stream."""
        if self._native.queued:
            self.start(plan, input, output)
            self.wait(self._ticket, -1.0)
            return
        self._perform_here(plan, input, output)

    def _perform_here(self, number: int, input: int, output: int) -> None:
        """Performs a call in the caller's thread, where no other thread's may be under way."""
        self.host.enter_call(self._plans[number].announced)
        try:
            self._perform(number, input, output)
        finally:
            self.host.leave_call()

    def _perform(self, number: int, input: int, output: int) -> None:
        with self._native:  # one call at a time
            self._raise_failure()
            plan = self._plans[number]
            self.host.announce(plan.announced)
            self._watch.begin()
            self._launch(number, plan, self._call(plan, input, output))
            if not self._processor.runs_ahead:
                self._raise_failure()

    def _perform_queued(self, number: int, input: int, output: int) -> None:
        try:
            self._perform(number, input, output)
        finally:
            self._native.queue(-1)

    def _call(self, plan: DevicePlan, input: int, output: int) -> bytes:
        if plan.scratch_bytes > self._scratch_bytes:
            self._scratch, self._scratch_bytes = self._processor.take(plan.scratch_bytes), plan.scratch_bytes
        return CALL.pack(
            plan.address,
            self._own,
            self._counters_at,
            input,
            output,
            self._scratch,
            self._native.place(input),
            self._native.place(output),
            int(self._timeout_s * 1e9),
            self._own + STOP_AT,
            self._processor.status,
            int(input < output + plan.extents[1] and output < input + plan.extents[0]),
            plan.blocks,
            0,
            len(plan.code.instructions),
            0,
            plan.windows,
            plan.scratch_chunks,
            self._regions_at,
            plan.nbytes,
            len(self._regions),
            self.ranks,
            (self._native.launches + 1) & 0xFFFFFFFF,
            int(plan.flagged),
            0,
            self._own + ENDED_AT,
        )

    # -- what peers reach

    def _add_region(self, bases: list[int], nbytes: int) -> int:
        number = len(self._regions)
        self._regions.append(bases)
        self._processor.write(self._regions_at + number * self.ranks * 8, np.array(bases, np.uint64).tobytes())
        if nbytes:
            begin = bases[self.rank]
            self._native.add_region(begin, begin + nbytes, number)
        return number

    def add_window(self, fd: int, nbytes: int) -> tuple[int, int]:
        """As Group.add_window; programs read the window's memory in place."""
        try:
            number, address = self.host.add_window(fd, nbytes)
        except OSError:
            if not self._processor.runs_ahead:
                self._add_region([0] * self.ranks, 0)
            raise
        if not self._processor.runs_ahead:  # a device does not reach the host's memory
            self._add_region([address + (rank - self.rank) * nbytes for rank in range(self.ranks)], nbytes)
        return number, address

    def symmetric(self, nbytes: int) -> int:
        """The address of zeroed memory that peers read in place; all ranks take as much."""
        bases = self._processor.share(nbytes)
        self._add_region(bases, nbytes)
        return bases[self.rank]

    # -- calls under way

    def start(self, plan: int, input: int, output: int) -> int:
        """As Group.start."""
        self._ticket += 1
        if self._processor.runs_ahead:
            self._perform_here(plan, input, output)
            self._tickets[self._ticket] = self._processor.mark()
        else:
            self.host.enter_call(self._plans[plan].announced)
            self.host.leave_call()
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "ringtree-device")
            self._native.queue(1)
            self._tickets[self._ticket] = self._thread.submit(self._perform_queued, plan, input, output)
        return self._ticket

    def done(self, ticket: int) -> bool:
        """As Group.done."""
        found = self._tickets.get(ticket)
        if isinstance(found, Future):
            return found.done()
        return found is None or self._processor.reached(found)

    def wait(self, ticket: int, timeout_s: float) -> bool:
        """As Group.wait; on a device, the caller's stream waits."""
        found = self._tickets.get(ticket)
        if isinstance(found, Future):
            try:
                found.result(None if timeout_s < 0 else timeout_s)
            except Late:
                if not found.done():
                    return False
                raise
        elif found is not None:
            self._processor.await_mark(found)
            self._raise_failure()
            self.host.check_liveness(self._native.text, [], [])
        for number in [n for n in self._tickets if n <= ticket]:
            del self._tickets[number]
        return True

    # -- failures

    def set_timeout(self, timeout_s: float) -> None:
        """As Group.set_timeout."""
        self._timeout_s = timeout_s
        self._native.limit_ns = int(timeout_s * 1e9)
        self.host.set_timeout(timeout_s)

    def _raise_failure(self) -> None:
        """Raises the group's failure, where a call ended before its time: as itself at first, as Poisoned later."""
        ending, text = self._processor.ending(), self._native.text
        if not ending.outcome and not self._native.stopped:
            return
        me = self.names[self.rank]
        if ending.outcome == LATE:
            peers = [ending.peer] if ending.peer >= 0 else []
            peer = f"rank {self.names[ending.peer]}" if peers else "a staging slot"
            self.host.report_timeout(f"rank {me} waited {self._timeout_s:g} s for {peer} in {text}", peers)
        if ending.outcome == MISMATCH:
            self.host.report_mismatch(f"rank {me} called {text} while rank {self.names[ending.peer]} called another")
        self.host.check_liveness(text, [], [])
        raise Poisoned(f"the group was closed in {text}")

    def _late(self, seconds: float) -> bool:
        """Whether a call has been under way for too long, where streams wait, which have no limit; then the group has
        failed."""
        if not self._processor.takes_turns or seconds <= self._timeout_s:
            return False
        peers = [rank for rank in range(self.ranks) if rank != self.rank and self._processor.awaits(rank)]
        whom = f"rank {self.names[peers[0]]}" if peers else "the others"
        me = self.names[self.rank]
        self.host.report_timeout(f"rank {me} waited {self._timeout_s:g} s for {whom} in {self._native.text}", peers[:1])
        return True

    def close(self) -> None:
        """As Group.close."""
        self._watch.close()
        self._native.close()
        if not self._processor.runs_ahead:
            self._processor.stop()
            with self._native:  # calls of other threads have ended
                pass
        if self._thread is not None:
            self._thread.shutdown()
        try:
            self.host.close()
        finally:
            self._processor.close()
        self._plans.clear()


def _threads(flagged: bool, part_bytes: int, chunk_bytes: int) -> int:
    """The number of a block's threads."""
    if flagged:
        return max(FEWEST_THREADS, min(MOST_THREADS, part_bytes // VECTOR_BYTES))
    return FEW_THREADS if chunk_bytes <= FEW_BYTES else MOST_THREADS
