"""One attempt: as many channels as fit at one speed, by depth-first search within a budget of steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from ringtree.machines.channels import Pattern
from ringtree.machines.machine import PathKind
from ringtree.nccl.graphs.flow import Charges, Flow
from ringtree.nccl.graphs.system import GraphPath, System

PCI_STEPS = 1 << 10
"""Most steps of the attempt in the GPUs' own order, before the search proper."""
MANY = 64
"""The most GPUs of which all are tried; of more, the neighbours alone, as on NVSwitches."""
TREES = (Pattern.TREE, Pattern.BALANCED_TREE, Pattern.SPLIT_TREE)
HEADS = (Pattern.NVLS, Pattern.COLLNET_DIRECT)


@dataclass(frozen=True, slots=True)
class ChannelConstraints:
    """The constraints on a channel: its speeds, the farthest paths it may take, whether channels are all `same`,
    whether it may leave by another NIC than it came by (`cross_nic` 2: channels in pairs), and how many are wanted."""

    pattern: Pattern
    intra_MBps: int
    inter_MBps: int
    intra: PathKind
    inter: PathKind
    cross_nic: int
    same: bool
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Found:
    """Channels that fit together: their orders, the NICs of each, and the edges they pass."""

    terms: ChannelConstraints
    orders: tuple[tuple[int, ...], ...]
    nets: tuple[tuple[int, int], ...]
    hops: int

    @property
    def count(self) -> int:
        """The number of channels."""
        return len(self.orders)

    def better_than(self, other: Found | None, gpus: int) -> bool:
        """More bandwidth within the machine, then fewer hops; more heads for NVLS."""
        if self.count < self.terms.least or other is None:
            return self.count >= self.terms.least
        if self.terms.pattern is Pattern.NVLS:
            more = other.count < self.count <= gpus
            return more or self.count * self.terms.inter_MBps > other.count * other.terms.inter_MBps
        mine, theirs = self.count * self.terms.intra_MBps, other.count * other.terms.intra_MBps
        alike = (self.terms.pattern, self.terms.cross_nic) == (other.terms.pattern, other.terms.cross_nic)
        return mine > theirs or (mine == theirs and alike and self.hops < other.hops)


class Leg(Enum):
    """The next leg of a channel. HALF goes back to the network with half the data, SAME by the same NIC as that one."""

    NET = "from the network"
    FIRST = "to its first GPU"
    NEXT = "to the next GPU"
    BACK = "back to the network"
    HALF = "back with half"
    SAME = "back with the other half"
    CLOSE = "back to its first GPU"
    SPREAD = "to and from all GPUs"
    DONE = "complete"

    __hash__ = object.__hash__  # Enum's own is in Python


class GpuOrder(Enum):
    """The rule by which the next GPU is chosen: any that fits, the GPUs' own order, or the last channel's."""

    FREE = "free"
    PCI = "pci"
    REPLAY = "replay"

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class Move:
    """One step: to a GPU or NIC, what it takes of the bandwidth, and the edges that it passes."""

    leg: Leg
    to: int = -1
    charges: Charges = ()
    hops: int = 0
    order: GpuOrder = GpuOrder.FREE


COMPLETE = Move(Leg.DONE)


def legs(pattern: Pattern, gpus: int, inter: bool) -> tuple[Leg, ...]:
    """A channel of the pattern, step by step."""
    on = (Leg.NEXT,) * (gpus - 1)
    start = (Leg.NET, Leg.FIRST) if inter else (Leg.FIRST,)
    if pattern is Pattern.RING:
        return (*start, *on, Leg.BACK if inter else Leg.CLOSE)
    if pattern in HEADS:
        return (*start, Leg.BACK, Leg.SPREAD) if inter else (*start, Leg.SPREAD)
    if not inter:
        return (*start, *on)
    if pattern is Pattern.BALANCED_TREE:
        return (*start, Leg.HALF, Leg.NEXT, Leg.SAME, *on[1:])
    return (*start, Leg.BACK, *on)


class Attempt:
    """`run` returns channels better than `best`, else `best`. Then `budget` is -1 where all wanted channels were found,
    0 where the steps were spent, else the number of steps left. `most`: an upper bound of the number of channels.

    The moves made are a stack. Complete channels are in `orders`, `nets` and `rules`; the unfinished one is `order`,
    from `entry` to `exit`, by `rule`, with `at` legs done. `paired`: every second channel has the NICs of the one
    before, the other way round."""

    def __init__(self, system: System, terms: ChannelConstraints, best: Found | None, budget: int, most: int) -> None:
        self.system, self.terms, self.best, self.budget, self.most = system, terms, best, budget, most
        self.legs = legs(terms.pattern, len(system.gpus), system.inter)
        self.paired = terms.pattern is Pattern.RING and terms.cross_nic == 2
        self.flow = Flow(system)
        self.net_left = [system.net_MBps(n) for n in system.nets]
        self.net_share = terms.inter_MBps // 1000 * 1000  # NCCL counts whole GB/s of a NIC
        self.made: list[Move] = []
        self.orders: list[tuple[int, ...]] = []
        self.nets: list[tuple[int, int]] = []
        self.rules: list[GpuOrder] = []
        self.order: list[int] = []
        self.visited = 0  # the GPUs of `order`, as bits
        self.rule, self.entry, self.exit, self.at = GpuOrder.FREE, -1, -1, 0
        self.hops = 0
        self.reached = False
        self._saved_budget = 0
        self._by_step: dict[tuple[Leg, int, int, GpuOrder], Move | None] = {}
        self._by_left: dict[tuple[int, int, int], tuple[Move, ...]] = {}

    def run(self) -> Found | None:
        """Cost: at most `budget` steps, each of a few links; a sort of the GPUs for each set that a channel lacks."""
        stack = [self._moves()]
        while stack and self.budget != -1 and not self.reached:
            for move in stack[-1]:
                if self._enter(move):
                    stack.append(self._moves())
                    break
            else:
                stack.pop()
                if self.made:
                    self._leave()
        return self.best

    def _enter(self, move: Move) -> bool:
        if self.budget <= 0 or not self.flow.take(move.charges):
            return False
        if move.leg is Leg.FIRST and move.order is GpuOrder.PCI and self.system.inter:
            self._saved_budget, self.budget = self.budget, PCI_STEPS
        if move.leg is not Leg.NET:
            self.budget -= 1
        self.hops += move.hops
        self.made.append(move)
        self.at += 1
        if move.leg is Leg.NET:
            self.entry = move.to
            self.net_left[move.to] -= self.net_share
        elif move.leg in (Leg.FIRST, Leg.NEXT):
            self.order.append(move.to)
            self.visited |= 1 << move.to
            self.rule = move.order
        elif move.leg in (Leg.BACK, Leg.HALF, Leg.SAME):
            self.exit = move.to
        elif move.leg is Leg.DONE:
            self._complete()
        return True

    def _leave(self) -> None:
        move = self.made.pop()
        self.flow.give(move.charges)
        self.hops -= move.hops
        if move.leg is Leg.DONE:
            self.order, self.rule, self.at = list(self.orders.pop()), self.rules.pop(), len(self.legs) + 1
            if self.terms.pattern in HEADS:
                self.order = self.order[:1]
            self.visited = sum(1 << gpu for gpu in self.order)
            self.entry, self.exit = self.nets.pop() if self.system.inter else (-1, -1)
        self.at -= 1
        if move.leg is Leg.NET:
            self.net_left[move.to] += self.net_share
        elif move.leg in (Leg.FIRST, Leg.NEXT):
            self.visited ^= 1 << self.order.pop()
            if move.leg is Leg.FIRST and move.order is GpuOrder.PCI and self.system.inter:
                self.budget = self._saved_budget

    def _complete(self) -> None:
        head = self.order[0]
        rest = [g for g in range(len(self.system.gpus)) if g != head] if self.terms.pattern in HEADS else []
        self.orders.append((*self.order, *rest))
        self.rules.append(self.rule)
        if self.system.inter:
            self.nets.append((self.entry, self.exit))
        found = Found(self.terms, tuple(self.orders), tuple(self.nets), self.hops)
        if found.better_than(self.best, len(self.system.gpus)):
            self.best = found
            if found.count == self.terms.most:
                self.budget = -1
            self.reached = found.count >= self.most and self.system.switch >= 0
        self.order, self.rule, self.entry, self.exit, self.at, self.visited = [], GpuOrder.FREE, -1, -1, 0, 0

    def _moves(self) -> Iterator[Move]:
        if self.at == len(self.legs):
            return iter((COMPLETE,))
        if len(self.orders) >= self.terms.most:
            return iter(())
        leg = self.legs[self.at]
        if leg is Leg.NET:
            return self._from_nets()
        if leg is Leg.FIRST:
            return self._firsts()
        if leg is Leg.NEXT:
            return self._nexts()
        if leg is Leg.CLOSE:
            return self._peers(Leg.CLOSE, self.order[:1])
        if leg is Leg.SPREAD:
            return iter((self._spread(self.order[0]),))
        return self._back(leg)

    def _from_nets(self) -> Iterator[Move]:
        nets, channel = self.system.nets_to_try(-1, self.terms.inter), len(self.orders)
        for k in range(len(nets)):
            net = nets[(channel + k) % len(nets)]
            if self.net_left[net] < self.net_share:
                continue
            if self.paired and channel % 2 and net != self.nets[-1][1]:
                continue
            if self.terms.pattern in HEADS and not self._heads(net):
                continue
            yield Move(Leg.NET, net)
            if self.terms.pattern in HEADS:
                return

    def _heads(self, net: int) -> bool:
        """Whether the GPU that is local to a NIC is not a head yet."""
        gpu = self.system.local_gpu[net]
        return gpu >= 0 and all(order[0] != gpu for order in self.orders)

    def _firsts(self) -> Iterator[Move]:
        system, channel = self.system, len(self.orders)
        gpus: list[tuple[int, GpuOrder]] = []
        if self.terms.pattern is Pattern.NVLS and not system.inter:
            gpus = [(channel, GpuOrder.FREE)] if channel < len(system.gpus) else []
        elif not system.inter:
            gpus = [(self.orders[-1][0], GpuOrder.REPLAY)] if channel else [(0, GpuOrder.PCI)]
            if not (channel and self.terms.same):
                gpus += [(g, GpuOrder.FREE) for g in range(len(system.gpus))]
        elif self.terms.pattern in HEADS:
            gpus = [(system.local_gpu[self.entry], GpuOrder.FREE)]
        elif channel and self.terms.same:
            gpus = [(self.orders[-1][0], GpuOrder.REPLAY)]
        else:
            near, local = system.near_gpus[self.entry], system.local_gpu[self.entry]
            gpus = [(0, GpuOrder.PCI)] if channel == 0 and system.switch < 0 else []
            gpus += [(g, GpuOrder.FREE) for g in dict.fromkeys((local, *near)) if g >= 0]
        for gpu, rule in gpus:
            if not system.inter:
                yield Move(Leg.FIRST, gpu, order=rule)
                continue
            step = Leg.FIRST, self.entry, gpu, rule
            if step not in self._by_step:
                path, back = system.from_net(self.entry, gpu), system.to_net(gpu, self.entry)
                self._by_step[step] = self._step(
                    Leg.FIRST, gpu, path, back, self.terms.inter, self.terms.inter_MBps, rule
                )
            if move := self._by_step[step]:
                yield move

    def _nexts(self) -> Iterator[Move]:
        if self.rule is GpuOrder.PCI:
            return self._peers(Leg.NEXT, (len(self.order),))
        if self.rule is GpuOrder.REPLAY:
            return self._peers(Leg.NEXT, (self.orders[-1][len(self.order)],))
        state = self.order[-1], self.visited, self.entry  # all that the moves depend on
        if state not in self._by_left:
            self._by_left[state] = tuple(self._peers(Leg.NEXT, self._sorted()))
        return iter(self._by_left[state])

    def _peers(self, leg: Leg, others: Iterable[int]) -> Iterator[Move]:
        """The moves from the channel's last GPU to those of the others that are near enough."""
        gpu, rule = self.order[-1], self.rule
        for to in others:
            step = leg, gpu, to, rule
            if step not in self._by_step:
                path, back = self.system.gpu_path(gpu, to), self.system.gpu_path(to, gpu)
                self._by_step[step] = self._step(leg, to, path, back, self.terms.intra, self.terms.intra_MBps, rule)
            if move := self._by_step[step]:
                yield move

    def _step(
        self, leg: Leg, to: int, path: GraphPath, back: GraphPath, farthest: PathKind, MBps: int, order: GpuOrder
    ) -> Move | None:
        """The move over a path with these MB/s; None where the path, or for trees the one back, goes too far."""
        if path.kind > farthest or (back.kind > farthest and self.terms.pattern in TREES):
            return None
        return self._over(leg, to, ((path, MBps),), order)

    def _over(
        self, leg: Leg, to: int, flows: tuple[tuple[GraphPath, int], ...], order: GpuOrder = GpuOrder.FREE
    ) -> Move:
        """The move over these paths with these MB/s."""
        return Move(leg, to, self.flow.charges(flows), sum(len(path.edges) for path, _ in flows), order)

    def _sorted(self) -> list[int]:
        """The GPUs that the channel lacks, the best first; on NVSwitches the neighbours alone, so that each has few
        peers."""
        system, gpu, count = self.system, self.order[-1], len(self.system.gpus)
        if system.switch >= 0 or count > MANY:
            around = [(gpu + 1) % count, (gpu - 1) % count]
            if self.terms.pattern in (Pattern.BALANCED_TREE, Pattern.SPLIT_TREE):
                around.reverse()
            elif self.terms.pattern is not Pattern.RING:
                around = around[:1]
            return [g for g in reversed(dict.fromkeys(around)) if g not in self.order]
        left = [g for g in ((gpu + k) % count for k in range(1, count)) if g not in self.order]
        left = [g for g in left if system.gpu_path(gpu, g).edges]
        inside = {
            g: (-(system.gpu_path(gpu, g).capacity_MBps // 1000), len(system.gpu_path(gpu, g).edges)) for g in left
        }
        ahead = self.legs[self.at : self.at + 2]
        if system.inter and len(ahead) == 2 and ahead[1] in (Leg.BACK, Leg.SAME):
            return sorted(left, key=lambda g: (*self._by_net(g), *inside[g]))
        before_back = system.inter and self.legs[-1] is Leg.BACK
        if before_back and len(set(inside.values())) == 1:
            return left[::-1]
        return sorted(left, key=inside.__getitem__)

    def _by_net(self, gpu: int) -> tuple[int, int, int]:
        path = self.system.from_net(self.entry, gpu)
        return -(path.capacity_MBps // 1000), -(self.system.pcie_MBps(gpu) // 1000), len(path.edges)

    def _back(self, leg: Leg) -> Iterator[Move]:
        gpu, half = self.order[-1], leg is not Leg.BACK
        share = self.terms.inter_MBps // 2 if half else self.terms.inter_MBps
        for net in self.system.nets_to_try(gpu, self.terms.inter):
            if not self._may_leave_by(net, leg):
                continue
            step = leg, gpu, net, GpuOrder.FREE
            if step not in self._by_step:
                path, back = self.system.to_net(gpu, net), self.system.from_net(net, gpu)
                self._by_step[step] = self._step(leg, net, path, back, self.terms.inter, share, GpuOrder.FREE)
            if move := self._by_step[step]:
                yield move

    def _may_leave_by(self, net: int, leg: Leg) -> bool:
        if self.terms.pattern is Pattern.TREE and net != self.entry:
            return False
        if self.paired:
            return len(self.orders) % 2 == 0 or net == self.nets[-1][0]
        if self.terms.cross_nic == 0 and net != self.entry:
            return False
        return leg is not Leg.SAME or net == self.exit

    def _spread(self, head: int) -> Move:
        """All GPUs send to the head's share and take from it: through the switch twice for the head itself (NVLS), or
        an even part of it each (CollNet)."""
        system, count, MBps = self.system, len(self.system.gpus), self.terms.intra_MBps
        if self.terms.pattern is Pattern.NVLS:
            paths = [
                (system.switch_path(g, out), MBps * (2 if g == head else 1))
                for out in (False, True)
                for g in range(count)
            ]
        else:
            others = [g for g in range(count) if g != head]
            paths = [(system.gpu_path(head, g), MBps // (count - 1)) for g in others]
            paths += [(system.gpu_path(g, head), MBps // (count - 1)) for g in others]
        return self._over(Leg.SPREAD, head, tuple(paths))


def doubled(found: Found, sm: int) -> Found:
    """Twice the channels at half the speed, where a channel is faster than one block of the GPU can drive."""
    terms = found.terms
    enough = terms.intra_MBps < 25_000 or (sm > 80 and terms.intra_MBps < 50_000 and found.count > 4)
    if enough or terms.pattern is Pattern.NVLS:
        return found
    count = min(found.count * 2, terms.most)
    by = -(-count // found.count)
    slower = replace(terms, intra_MBps=terms.intra_MBps // by, inter_MBps=terms.inter_MBps // by)
    return replace(found, terms=slower, orders=(found.orders * 2)[:count], nets=(found.nets * 2)[:count])
