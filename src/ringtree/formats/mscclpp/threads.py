"""One gpu's threads of an execution plan: its thread blocks', then its port channels' proxies'.

A memory channel's put is a store by the thread block itself; a port channel's is a request to a proxy, which copies
later and in the order of the requests: here a thread of its own for each port channel, that a flush waits for. The i-th
channel of a gpu to a peer is paired with the peer's i-th channel back, of the same type. A switch channel's operation
reads or writes the memory of all gpus of its group at once; a relaxed signal is taken for a signal.

A block's threads signal and wait each for a channel of its own, so a nop, which is the block's own barrier, must stand
between moving data and signalling, between waiting and moving data, and between waiting for one channel and signalling
on another.
"""

from __future__ import annotations

from ringtree.formats.execution import NAMES
from ringtree.formats.mscclpp.gpu import PACKETS, PLAIN, PUTS, SIGNALS, SUMS, WAITS, Gpu, Op
from ringtree.formats.mscclpp.local import Barriers, Semaphores
from ringtree.formats.mscclpp.packets import Packets, StepAt
from ringtree.formats.steps import Step
from ringtree.ir.program import Instruction, Kind, Operand, Space

PORT_LANES = 1 << 20
"""The first lane of port channels, beyond the numbers of all memory channels."""


class GpuThreads:
    """Writes the threads of one gpu. `steps`, `ops`: by thread, the steps and the operations that they come from."""

    def __init__(self, gpu: Gpu, packets: Packets) -> None:
        self.gpu, self.packets = gpu, packets
        many = len(gpu.blocks) + len(gpu.peers["port"])
        self.steps: list[list[Step]] = [[] for _ in range(many)]
        self.ops: list[list[Op]] = [[] for _ in range(many)]
        self.owners: dict[int, int] = {}  # port channel -> the thread block that uses it
        self.moved: list[Operand] = []  # what a thread block has written since its last nop
        self.seen: list[tuple[Operand, bool]] = []  # and read, and whether by an operation on packets
        self.semaphores, self.barriers = Semaphores(gpu), Barriers(gpu)

    def write(self) -> None:
        """Writes all threads; FormatError at the first operation that cannot be."""
        for block in range(len(self.gpu.blocks)):
            order = _Order()
            self.moved.clear()
            self.seen.clear()
            for op in self.gpu.ops(block):
                kind = _kind(op)
                if problem := order.problem(op, kind, self._asks(op)):
                    raise self.gpu.refuse(op, problem)
                if kind == "nop":
                    self.moved.clear()
                    self.seen.clear()
                self._write(op)
        self.semaphores.connect(self.steps)
        self.barriers.connect(self.steps)

    def _asks(self, op: Op) -> int:
        """The channels or semaphores of an operation, each of which a thread of its own serves."""
        key = "semaphore_ids" if op.name in ("sem_acquire", "sem_release") else "channel_ids"
        return len(self.gpu.plan.get(op.fields.get(key, []), list, key))

    def _write(self, op: Op) -> None:
        if op.name in SIGNALS:
            self._signal(op)
        elif op.name in WAITS:
            lanes = [self._lane(op, c) for c in self.gpu.channels(op)]
            self._step(op, op.block, [Instruction(Kind.WAIT, peer=p, channel=lane) for p, lane in lanes])
        elif op.name == "flush":
            self._flush(op)
        elif op.name in ("sem_acquire", "sem_release"):
            self.semaphores.add(op, self._step(op, op.block, []))
        elif op.name == "barrier":
            self.barriers.add(op, self._step(op, op.block, []))
        elif op.name in PUTS and op.port:
            self._request(op)
        elif op.name in (*PLAIN, *PACKETS):
            self._move(op)
        elif op.name != "nop":
            raise self.gpu.refuse(op, "is on no port channel; expected one, whose proxy signals after its put")

    def _step(self, op: Op, thread: int, code: list[Instruction]) -> StepAt:
        self.steps[thread].append(Step(code))
        self.ops[thread].append(op)
        self.gpu.plan.count(1)
        return self.gpu.rank, thread, len(self.steps[thread]) - 1

    def _lane(self, op: Op, channel: int) -> tuple[int, int]:
        peer, number = self.gpu.lane(op, channel)
        return peer, number + (PORT_LANES if op.port else 0)

    def _signal(self, op: Op) -> None:
        for channel in self.gpu.channels(op):
            peer, lane = self._lane(op, channel)
            code = [Instruction(Kind.SIGNAL, peer=peer, channel=lane)]
            if op.port:
                self._ask(op, channel, code)
            else:
                self._step(op, op.block, code)

    def _ask(self, op: Op, channel: int, code: list[Instruction]) -> StepAt:
        """A request to the proxy of a port channel, after what the thread block did before."""
        if self.owners.setdefault(channel, op.block) != op.block:
            other = self.gpu.blocks[self.owners[channel]].get("id", self.owners[channel])
            problem = f"uses port channel {channel}, as thread block {other} does: their order is left to chance"
            raise self.gpu.refuse(op, problem)
        asked = self._step(op, len(self.gpu.blocks) + channel, code)
        if self.steps[op.block]:
            self.steps[asked[1]][asked[2]].before.append((op.block, len(self.steps[op.block]) - 1))
        return asked

    def _request(self, op: Op) -> None:
        """A put by a port channel's proxy, with its signal and flush where it has them. Packets are copied as they lie
        in scratch: rppkt waits for them first, ppkt does not."""
        channels = self.gpu.channels(op)
        sources, targets = self._pairs(op)
        sources = sources * len(targets) if op.name == "rppkt" else sources
        if len(channels) != len(targets):
            raise self.gpu.refuse(op, f"has {len(targets)} targets and {len(channels)} channels; expected as many")
        if op.name == "rppkt":
            self.packets.wait(self._step(op, op.block, []), sources[:1])
        elif any(_overlap(o, moved) for o in sources for moved in self.moved):
            raise self.gpu.refuse(op, "takes what a move above it may still write; expected a nop between")
        for channel, source, target in zip(channels, sources, targets, strict=True):
            asked = self._ask(op, channel, [Instruction(Kind.COPY, (target,), (source,))])
            if op.name in PACKETS:
                self.packets.write(asked, [target])
            elif op.name != "put":
                peer, lane = self._lane(op, channel)
                self._ask(op, channel, [Instruction(Kind.SIGNAL, peer=peer, channel=lane)])
        if op.name == "pwsf":
            self._flush(op)

    def _flush(self, op: Op) -> None:
        """Waits until the proxies have done what was asked of them."""
        at = self._step(op, op.block, [])
        for channel in self.gpu.channels(op):
            proxy = len(self.gpu.blocks) + channel
            if self.steps[proxy]:
                self.steps[at[1]][at[2]].before.append((proxy, len(self.steps[proxy]) - 1))

    def _move(self, op: Op) -> None:
        """Copies and sums by the thread block itself."""
        if op.name in SUMS:
            sources, targets = self._operands(op)
            self._check(op, sources, targets, 2, 2 if op.name in ("recpkt", "recspkt") else 1)
            pairs, kind = [(sources, targets)], Kind.REDUCE
        else:
            sources, targets = self._pairs(op)
            pairs, kind = [([s], [t]) for s, t in zip(sources, targets, strict=False)], Kind.COPY
            if len(sources) < len(targets):
                pairs = [(sources, targets)]
        for read, written in pairs:
            if op.name in ("gstore", "gstorepkt"):  # what it writes where it has read it is there already
                written = [o for o in written if o != read[0]]
            code = [Instruction(kind, tuple(written), tuple(read))] if written else []
            at = self._step(op, op.block, code)
            waited, sent = _packets(op, read, written)
            self._check_apart(op, [o for o in read if o not in waited], written)
            self.packets.wait(at, waited)
            self.packets.write(at, sent)
            self.moved += written
            self.seen += [(o, op.name in PACKETS) for o in read]

    def _check_apart(self, op: Op, read: list[Operand], written: list[Operand]) -> None:
        """Refuses a move that is too early for another of its thread block, whose threads go on one by one. Two
        operations on packets, or on none, give an element to the same thread where they have the same range."""
        self.gpu.plan.compare((len(read) + len(written)) * (len(self.moved) + len(self.seen)))
        if any(_overlap(o, moved) for o in (*read, *written) for moved in self.moved):
            raise self.gpu.refuse(op, "takes what a move above it may still write; expected a nop between")
        for o in written:
            for seen, packets in self.seen:
                if _overlap(o, seen) and (o != seen or packets != (op.name in PACKETS)):
                    raise self.gpu.refuse(op, "writes what a move above it may still read; expected a nop between")

    def _operands(self, op: Op) -> tuple[list[Operand], list[Operand]]:
        sources, targets = (
            [o for each in self.gpu.operands(op, key) for o in each] for key in ("src_buff", "dst_buff")
        )
        return sources, targets

    def _pairs(self, op: Op) -> tuple[list[Operand], list[Operand]]:
        """Sources and targets of an operation that moves each source to its target, or one source to all targets."""
        sources, targets = self._operands(op)
        self._check(op, sources, targets, 1, 1)
        one = op.name in ("rppkt", "gstore", "gstorepkt")
        if len(sources) != (1 if one else len(targets)) or (op.name in ("copy", "cpkt", "upkt") and len(sources) > 1):
            counts = f"{len(sources)} sources and {len(targets)} targets"
            raise self.gpu.refuse(op, f"has {counts}; expected {'one source' if one else 'one of each, or as many'}")
        return sources, targets

    def _check(self, op: Op, sources: list[Operand], targets: list[Operand], least: int, made: int) -> None:
        if len(sources) < least or len(targets) < made:
            counts = f"{len(sources)} sources and {len(targets)} targets"
            raise self.gpu.refuse(op, f"has {counts}; expected {least} and {made}")
        if len({o.count for o in (*sources, *targets)}) > 1:
            raise self.gpu.refuse(op, "its buffers differ in size; expected one size")
        own = {"get": targets, "glres": []}.get(op.name, sources[:1])
        waited, sent = _packets(op, sources, targets)
        if any(o.rank >= 0 for o in (*own, *waited)):
            raise self.gpu.refuse(op, "names a peer's buffer where its own is expected")
        flagged = {id(o) for o in (*waited, *sent)}
        for o in (*sources, *targets):
            if id(o) in flagged and o.space is not Space.SCRATCH:
                raise self.gpu.refuse(op, f"has packets in {NAMES[o.space]}; expected them in s")
            if o.space is Space.SCRATCH:
                owner = self.gpu.rank if o.rank < 0 else o.rank
                self.packets.check_scratch(owner, id(o) in flagged, self.gpu.where(op))


class _Order:
    """The operations of a thread block since its last nop. All its threads move data, each at its own pace; the t-th
    channel or semaphore of a wait, a signal or a request is the t-th thread's alone."""

    def __init__(self) -> None:
        self._moved, self._waited = False, 0

    def problem(self, op: Op, kind: str, asks: int) -> str:
        """The reason why a nop must stand before an operation; "" if none need."""
        if self._moved and kind == "signal":
            return "comes after a move; expected a nop between"
        elsewhere = kind in ("signal", "request") and max(self._waited, asks) > 1 and op.name != "rppkt"
        if self._waited and (kind == "move" or elsewhere):
            return "comes after a wait; expected a nop between"
        if kind == "nop":
            self._moved, self._waited = False, 0
        self._moved |= kind == "move"
        self._waited = max(self._waited, asks if kind == "wait" else 0)
        return ""


def _kind(op: Op) -> str:
    """The kind of an operation for its thread block: a move by all threads, a wait, a signal or a request to a proxy
    by one, or a nop."""
    if op.name in SIGNALS or op.name == "sem_release":
        return "signal"
    if op.name in WAITS or op.name in ("flush", "sem_acquire"):
        return "wait"
    if op.name in ("nop", "barrier"):
        return "nop"
    return "request" if op.port else "move"


def _overlap(a: Operand, b: Operand) -> bool:
    return (a.space, a.rank) == (b.space, b.rank) and a.index < b.index + b.count and b.index < a.index + a.count


def _packets(op: Op, sources: list[Operand], targets: list[Operand]) -> tuple[list[Operand], list[Operand]]:
    """The sources and the targets of an operation that are packets."""
    if op.name not in PACKETS:
        return [], []
    if op.name in ("repkt", "recpkt", "respkt", "recspkt"):
        return sources[1:], targets[1:]
    flagged = op.name in ("rppkt", "upkt", "gstorepkt") or (op.name == "ppkt" and op.port)
    return sources if flagged else [], [] if op.name == "upkt" else targets
