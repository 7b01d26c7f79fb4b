"""An engine that takes its steps in random order, and order itself by brute force: what progress and races claim, seen.

Shares no code with the verifier. One thread a rank; slots are a ring of the sender's, each with a count of receivers.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import combinations

from ringtree.ir.program import Kind, Program, Space


def finishes(programs: Sequence[Program], slots: int, seed: int) -> bool:
    """Whether single-threaded programs come to their end with that many slots, stepping ranks in random order."""
    choose = random.Random(seed)
    ranks = [_Rank(p, slots) for p in programs]
    lanes: dict[tuple[int, int], deque[int]] = defaultdict(deque)
    held: dict[tuple[int, int], deque[int]] = defaultdict(deque)
    alive = [r for r in ranks if r.code]
    while alive:
        order = choose.sample(alive, len(alive))
        mover = next((r for r in order if r.can_step(lanes)), None)
        if mover is None:
            return False
        mover.step(lanes, held, ranks)
        alive = [r for r in ranks if r.at < len(r.code)]
    return True


class _Rank:
    def __init__(self, program: Program, slots: int) -> None:
        self.rank, self.code, self.at = program.rank, program.instructions, 0
        self.readers = [0] * slots  # per slot: messages not yet released
        self.signals_to_come: dict[int, int] = {}  # slot -> signals of this filling still ahead
        self.slot_of: dict[int, int] = {}  # register -> slot
        self.fresh: set[int] = set()  # registers filled and not yet signalled
        self.taken = 0

    def _fills(self) -> list[int]:
        i = self.code[self.at]
        return [t.index for t in i.targets if t.space is Space.SLOT and t.index not in self.fresh]

    def can_step(self, lanes: dict[tuple[int, int], deque[int]]) -> bool:
        i = self.code[self.at]
        if i.kind is Kind.WAIT:
            return bool(lanes[i.peer, self.rank])
        for k, _ in enumerate(self._fills()):
            if not self.readers:
                return False
            slot = (self.taken + k) % len(self.readers)
            if self.readers[slot] or self.signals_to_come.get(slot, 0):
                return False
        return True

    def step(
        self,
        lanes: dict[tuple[int, int], deque[int]],
        held: dict[tuple[int, int], deque[int]],
        ranks: Sequence[_Rank],
    ) -> None:
        i = self.code[self.at]
        for register in self._fills():
            slot = self.taken % len(self.readers)
            self.taken += 1
            self.slot_of[register] = slot
            self.fresh.add(register)
            self.signals_to_come[slot] = self._signals_ahead(register)
        if i.kind is Kind.SIGNAL:
            slot = self.slot_of[i.register]
            self.fresh.discard(i.register)
            self.signals_to_come[slot] -= 1
            self.readers[slot] += 1
            lanes[self.rank, i.peer].append(slot)
        elif i.kind is Kind.WAIT:
            held[i.peer, self.rank].append(lanes[i.peer, self.rank].popleft())
        elif i.kind is Kind.RELEASE:
            ranks[i.peer].readers[held[i.peer, self.rank].popleft()] -= 1
        self.at += 1

    def _signals_ahead(self, register: int) -> int:
        """How often the register is signalled before it is filled anew."""
        count = 0
        for i in self.code[self.at + 1 :]:
            if i.kind is Kind.SIGNAL and i.register == register:
                count += 1
            elif count and any(t.space is Space.SLOT and t.index == register for t in i.targets):
                break
        return count


def races(programs: Sequence[Program]) -> bool:
    """Whether two conflicting steps are unordered, by the transitive closure of all orders; bare signals only."""
    nodes = [(p.rank, t, s) for p in programs for t, code in enumerate(p.threads) for s in range(len(code))]
    number = {node: k for k, node in enumerate(nodes)}
    step = [programs[r].threads[t][s] for r, t, s in nodes]
    before = [0] * len(nodes)  # bit set of direct predecessors
    sent: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for k, (r, t, s) in enumerate(nodes):
        if s:
            before[k] |= 1 << number[r, t, s - 1]
        for thread, other in step[k].after:
            before[k] |= 1 << number[r, thread, other]
        if step[k].kind is Kind.SIGNAL:
            sent[r, step[k].peer, step[k].channel].append(k)
    for k, (r, _, _) in enumerate(nodes):
        if step[k].kind is Kind.WAIT:
            before[k] |= 1 << sent[step[k].peer, r, step[k].channel].pop(0)
    changed = True
    while changed:
        changed = False
        for k in range(len(nodes)):
            reach = before[k]
            for j in range(len(nodes)):
                if before[k] >> j & 1:
                    reach |= before[j]
            changed |= reach != before[k]
            before[k] = reach

    def touched(k: int, write: bool) -> set[tuple[int, Space, int]]:
        operands = step[k].targets if write else (*step[k].targets, *step[k].sources)
        return {(o.rank if o.rank >= 0 else nodes[k][0], o.space, o.index) for o in operands}

    return any(
        (touched(a, True) & touched(b, False) or touched(a, False) & touched(b, True))
        and not before[b] >> a & 1
        and not before[a] >> b & 1
        for a, b in combinations(range(len(nodes)), 2)
    )
