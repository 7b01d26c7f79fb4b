"""The channels of one pattern: attempts at one speed after another, and with looser terms, until enough fit.

The rules are those of NVIDIA/nccl 2.30.7, src/graph/search.cc (ncclTopoCompute), the speeds also of ROCm/rccl 2.21.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from ringtree.machines.channels import Pattern
from ringtree.machines.machine import PathKind
from ringtree.nccl.graphs.attempt import HEADS, TREES, Attempt, ChannelConstraints, Found, doubled
from ringtree.nccl.graphs.system import System

STEPS = 1 << 12
SWITCHED_STEPS = 1 << 10
SAME_STEPS = 1 << 8
"""The least budget of an attempt, in steps: where channels differ, and where they are all the same."""
MOST_ATTEMPTS = 32
"""Once channels are found, the steps of this many attempts may be spent. NCCL allows as many attempts, of four times
the steps."""
MOST_HEADS = {Pattern.NVLS: 32, Pattern.COLLNET_DIRECT: 8}
HALF = 0.49
"""A speed below half the found one is not tried: twice as many channels at it would be no better."""
CROSSING = (Pattern.RING, Pattern.BALANCED_TREE)

INSIDE = (40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3)
ACROSS = (48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12)
HOPPER_INSIDE = (60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3)
HOPPER_ACROSS = (48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12)
BLACKWELL_INSIDE = (90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18)
BLACKWELL_ACROSS = (96, 86, 80, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12)
RCCL = (48, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12)
"""AMD's, within a machine and between."""
LADDERS = ((100, BLACKWELL_INSIDE, BLACKWELL_ACROSS), (90, HOPPER_INSIDE, HOPPER_ACROSS), (0, INSIDE, ACROSS))
"""The speeds of a channel that are tried, fastest first: from which compute capability (times 10), within a machine,
between machines. In GB/s, as NCCL prints them."""


@lru_cache(maxsize=64)
def compute(system: System, pattern: Pattern, least: int, most: int) -> Found | None:
    """The channels that a search finds; None where nothing fits at any speed."""
    gpus = len(system.gpus)
    if gpus == 1 and pattern is not Pattern.RING:
        pattern = Pattern.TREE
    if pattern in HEADS:
        most = min(MOST_HEADS[pattern], gpus)
    if pattern is Pattern.NVLS and not system.inter:
        least = most
    if pattern is Pattern.RING and system.split and most >= 2 and least == 1:
        least = 2
    return _Search(system, pattern, least, most).run()


class _Search:
    def __init__(self, system: System, pattern: Pattern, least: int, most: int) -> None:
        self.system, self.pattern, self.least, self.most = system, pattern, least, most
        self.speeds = ladder(system.sm, system.inter, system.rccl)
        self.found: Found | None = None
        self.left = MOST_ATTEMPTS * self._steps(most)
        self.spent = False
        self.tried: set[ChannelConstraints] = set()
        gpus = len(system.gpus)
        self.total = system.total_MBps
        self.reach = self.total if pattern is Pattern.RING or gpus == 1 else self.total * gpus / (gpus - 1)

    def run(self) -> Found | None:
        for terms in self._looser():
            if self._try(terms):
                break
        if self.found is not None:
            self.found = doubled(self.found, self.system.sm)
            self._faster()
        return self.found

    def _try(self, terms: ChannelConstraints) -> bool:
        """Makes one attempt; returns whether no better one can follow."""
        most = most_channels(self.system, terms)
        if most < terms.least or not self._worth(terms, most) or self._known(terms):
            return False
        steps = SAME_STEPS if terms.same else self._steps(most)
        attempt = Attempt(self.system, terms, self.found, steps, most)
        self.found = attempt.run()
        self.left -= steps - max(attempt.budget, 0)
        self.spent = attempt.budget == 0
        if attempt.budget == -1 or (self.left < 0 and self.found is not None):
            return True
        return self.found is not None and self.found.count * self.found.terms.inter_MBps >= self.total

    def _steps(self, most: int) -> int:
        """Through NVSwitches all orders of the GPUs load links alike: few are tried."""
        least = SWITCHED_STEPS if self.system.switch >= 0 else STEPS
        return max(least, 2 * most * len(self.system.gpus))

    def _known(self, terms: ChannelConstraints) -> bool:
        """Whether looser terms allow no path that those of an earlier attempt did not."""
        intra = max((k for k in self.system.gpu_kinds if k <= terms.intra), default=PathKind.LOC)
        inter = max((k for k in self.system.net_kinds if k <= terms.inter), default=PathKind.LOC)
        alike = replace(terms, intra=intra, inter=inter)
        if alike in self.tried:
            return True
        self.tried.add(alike)
        return False

    def _worth(self, terms: ChannelConstraints, most: int) -> bool:
        """Whether `count` channels of those terms would be better than the found ones."""
        if self.found is None:
            return most > 0
        if terms.pattern is Pattern.NVLS:
            return True
        return most * terms.intra_MBps > self.found.count * self.found.terms.intra_MBps

    def _start(self) -> int:
        """The first speed that a path can hold, with all GPUs as often as wanted."""
        widest = self.system.fastest_MBps
        fits = (s <= widest and s * self.least <= self.reach for s in self.speeds)
        return next((n for n, fit in enumerate(fits) if fit), len(self.speeds) - 1)

    def _looser(self) -> Iterator[ChannelConstraints]:
        """Terms from the strictest on; the channels found so far decide where to stop."""
        for MBps in self.speeds[self._start() :]:
            if self.found is not None and MBps / self.found.terms.inter_MBps <= HALF:
                return
            for cross in self._crossings():
                for inter in self._inter_kinds():
                    for intra in self._intra_kinds(inter):
                        yield from self._variants(MBps, inter, intra, cross)

    def _variants(self, MBps: int, inter: PathKind, intra: PathKind, cross: int) -> Iterator[ChannelConstraints]:
        pattern = self.found.terms.pattern if self.found else self.pattern
        patterns = [pattern]
        if self.system.sm >= 90 and pattern is Pattern.BALANCED_TREE:
            patterns.append(Pattern.TREE)
        sames = [False] if pattern is Pattern.NVLS else [True, False]
        if self.system.cpu == "amd" and intra is PathKind.SYS:
            sames = sames[:1]
        for kind in patterns:
            for same in sames:
                yield ChannelConstraints(kind, MBps, MBps, intra, inter, cross, same, self.least, self.most)

    def _crossings(self) -> tuple[int, ...]:
        return (0, 2) if len(self.system.nets) > 1 and self.pattern in CROSSING else (0,)

    def _inter_kinds(self) -> Iterator[PathKind]:
        kinds = self.system.net_kinds
        nearest, farthest = (min(kinds), max(kinds)) if kinds else (PathKind.PIX, PathKind.PIX)
        if self.system.sm < 90:
            farthest = PathKind.SYS
        for kind in map(PathKind, range(nearest, max(nearest, farthest if self.system.inter else nearest) + 1)):
            if self.found is None or kind is nearest or kind <= max(self.found.terms.inter, PathKind.PXN):
                yield kind

    def _intra_kinds(self, inter: PathKind) -> Iterator[PathKind]:
        kinds = self.system.gpu_kinds or (PathKind.LOC,)
        farthest = inter if self.system.inter else max(kinds)
        for kind in map(PathKind, range(min(kinds), max(min(kinds), farthest) + 1)):
            if self.found is None or kind is min(kinds) or kind <= self.found.terms.intra:
                yield kind

    def _faster(self) -> None:
        """The channels at a higher speed: rings everywhere, NVLS between machines, trees within."""
        assert self.found is not None
        terms = replace(self.found.terms, least=self.found.count)
        position = next((n for n, s in enumerate(self.speeds) if s <= terms.inter_MBps), len(self.speeds) - 1)
        terms = replace(terms, intra_MBps=self.speeds[position], inter_MBps=self.speeds[position])
        self.spent = False
        while position > 0 and not self.spent:
            now = self.found.terms
            if self.pattern is Pattern.RING:
                terms = replace(terms, intra_MBps=self.speeds[position - 1], inter_MBps=self.speeds[position - 1])
            elif self.pattern is Pattern.NVLS:
                if not (terms.inter_MBps == now.inter_MBps and terms.inter_MBps < terms.intra_MBps * 2):
                    return
                count = self.found.count
                terms = replace(terms, least=count, most=count, inter_MBps=self.speeds[position - 1])
            elif terms.intra_MBps == now.intra_MBps and terms.intra_MBps < terms.inter_MBps * 2:
                terms = replace(terms, intra_MBps=self.speeds[position - 1])
            else:
                return
            position -= 1
            self._try(terms)


def ladder(sm: int, across: bool, rccl: bool) -> tuple[int, ...]:
    """The speeds to try, in MB/s."""
    inside, between = (RCCL, RCCL) if rccl else next((i, a) for least, i, a in LADDERS if sm >= least)
    return tuple(round(GBps * 1000) for GBps in (between if across else inside))


def most_channels(system: System, terms: ChannelConstraints) -> int:
    """An upper bound of the number of channels of those terms, from the GPUs' links and from the usable NICs: terms
    that cannot be better than the found ones are not searched."""
    gpus = range(len(system.gpus))
    most = terms.most
    if terms.pattern in (Pattern.RING, *TREES) and len(gpus) > 1:
        closed = terms.pattern is Pattern.RING and not system.inter
        sends = sum(MBps // terms.intra_MBps for MBps in system.leaving_MBps)
        most = min(most, sends // (len(gpus) if closed else len(gpus) - 1))
    if system.inter:
        whole_MBps = terms.inter_MBps // 1000 * 1000  # NCCL counts whole GB/s of a NIC: slower channels are free
        usable = [n for n in system.nets if _usable(system, terms, n)]
        of_nics = sum(system.net_MBps(n) // whole_MBps for n in usable) if whole_MBps else most * len(usable)
        most = min(most, of_nics)
    return most


def _usable(system: System, terms: ChannelConstraints, net: int) -> bool:
    """Whether a channel can come in by a NIC and, where it must leave by the same NIC, leave from the right GPU."""
    into, back = system.ends(net, terms.inter)
    if terms.pattern is Pattern.RING:
        alone = len(system.gpus) == 1
        return bool(into) and (terms.cross_nic == 2 or (bool(back) and (alone or len(into | back) > 1)))
    return bool(into & back)
