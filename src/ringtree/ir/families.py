"""Finds the symmetry in a block's rows: rows that are one transfer repeated for every rank, or for every step.

A family is a nest of up to three loops over rows in listed order. In it round, source, target and the two chunks each
move by a constant per step of each loop, ranks modulo their number and chunks modulo their buffer's length. A *folded*
family is the other symmetry in use: partners whose ranks differ in one bit pattern, and whose chunks are a rank rounded
down to a multiple of a power of two. An *interleaved* family is a loop over a few rows, each with its own steps: two
trees that are listed side by side.

The search is greedy, over runs of equal differences: O(rows) in numpy, Python only per run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.schedule import Transfers

Five = tuple[int, int, int, int, int]
FIELDS = ("round", "source", "target", "source_chunk", "target_chunk")
ROUND, SOURCE, TARGET, SOURCE_CHUNK, TARGET_CHUNK = range(5)
SHORTEST = 3
"""A loop over fewer rows is longer to read than the rows."""
DEEPEST = 3
MOST_MEMBERS = 8


@dataclass(frozen=True, slots=True)
class Fold:
    """factor * ((r ^ flip) rounded down to a multiple of `multiple`), for each source r."""

    factor: int
    flip: int
    multiple: int


class Loop(NamedTuple):
    """A loop: `times` repetitions, in which the fields move by `by`."""

    times: int
    by: Five


@dataclass(frozen=True, slots=True)
class RowFamily:
    """Row `row` and the rows after it, as many as the loops count. `first`: the fields of the first; the innermost loop
    comes first. `folds` replaces fields by folds (there is one loop then, over consecutive sources). Fields with
    modulus 0 are not reduced. An interleaved family has one loop, and `members` with one each instead of steps."""

    row: int
    first: Five
    moduli: Five
    loops: tuple[Loop, ...] = ()
    folds: tuple[tuple[int, Fold], ...] = ()
    members: tuple[RowFamily, ...] = ()


def find(rows: Transfers, ranks: int, lengths: NDArray[np.int64]) -> list[RowFamily]:
    """The families of the rows, in order; together they are all rows, each once. `lengths`: chunks per buffer."""
    if not len(rows):
        return []
    table = np.stack([getattr(rows, name) for name in FIELDS], axis=1).astype(np.int64)
    moduli = np.stack(
        [
            np.zeros(len(rows), np.int64),
            np.full(len(rows), ranks),
            np.full(len(rows), ranks),
            lengths[rows.source_buffer],
            lengths[rows.target_buffer],
        ],
        axis=1,
    )
    kind = np.stack([rows.source_buffer, rows.target_buffer, rows.count, rows.reduce.astype(np.int32)], axis=1)

    def found(interleaved: _Interleaved | None) -> list[RowFamily]:
        families = _runs(table, moduli, kind, interleaved)
        for _ in range(DEEPEST - 1):
            families = _nest(families, kind, ranks)
        return _explode(families, table, moduli, ranks)

    plain = found(None)
    if len(plain) <= 2 * SHORTEST:
        return plain
    return min(plain, found(_Interleaved(table, moduli, kind)), key=lambda fs: sum(len(f.members) or 1 for f in fs))


def signed(value: int, modulus: int) -> int:
    """The representative nearest to 0 (the positive one of two); the value itself for modulus 0."""
    if not modulus:
        return value
    value %= modulus
    return value - modulus if 2 * value > modulus else value


def _steps(table: NDArray[np.int64], moduli: NDArray[np.int64], lag: int = 1) -> NDArray[np.int64]:
    """Differences of rows `lag` apart, nearest to 0; where no modulus can explain one, a number never seen twice."""
    steps = table[lag:] - table[:-lag]
    m = np.maximum(moduli[lag:], 1)
    wrapped = steps % m
    wrapped = np.where(2 * wrapped > m, wrapped - m, wrapped)
    unique = 2**40 + np.arange(steps.size, dtype=np.int64).reshape(steps.shape)
    inside = (table >= 0) & (table < moduli)
    cyclic = np.where(inside[lag:] & inside[:-lag], wrapped, np.where(steps == 0, 0, unique))
    return np.where(moduli[lag:] > 0, cyclic, np.where(steps >= 0, steps, unique))


def _ends(broken: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The first j >= i where `broken`, for each i; the last is taken as broken."""
    index = np.where(broken, np.arange(len(broken)), len(broken) - 1)
    return np.minimum.accumulate(index[::-1])[::-1]


def _run_ends(steps: NDArray[np.int64], joined: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The last row, for each row, of the run of equal steps that starts there; `joined[i]`: i and i+1 may be in one."""
    m = len(joined) + 1
    changes = np.ones(m, np.bool_)
    changes[1:-1] = ~joined[1:] | np.any(np.diff(steps, axis=0) != 0, axis=1)
    ends = np.arange(m)
    after = _ends(changes)
    ends[:-1] = np.where(joined & np.all(steps < 2**39, axis=1), after[1:], ends[:-1])
    return ends


def _runs(
    table: NDArray[np.int64], moduli: NDArray[np.int64], kind: NDArray[np.int32], interleaved: _Interleaved | None
) -> list[RowFamily]:
    """The families, greedily: at each row the one that starts there and repeats most."""
    joined = np.all(kind[1:] == kind[:-1], axis=1) & np.all(moduli[1:] == moduli[:-1], axis=1)
    steps = _steps(table, moduli)
    ends = _run_ends(steps, joined)
    folded = _Folded(table, moduli, steps, joined)
    found, i = [], 0
    while i < len(table):
        end = int(ends[i])
        if end == i + 1 and end < len(table) - 1 and ends[end] - end + 1 >= SHORTEST:
            end = i  # leave the second row to the longer run that it starts
        first, mod = _five(table[i]), _five(moduli[i])
        if folded.end(i) > end:
            end, by, folds = folded.family(i)
            found.append(RowFamily(i, first, mod, (Loop(end - i + 1, by),), folds))
        elif interleaved is not None and (family := interleaved.family(i, end - i + 1)):
            found.append(family)
            end = i + family.loops[0].times * len(family.members) - 1
        else:
            found.append(RowFamily(i, first, mod, (Loop(end - i + 1, _five(steps[i])),) if end > i else ()))
        i = end + 1
    return found


class _Folded:
    """Runs of consecutive sources r = a, a+1, … whose targets are r ^ flip, with chunks that are affine or folds."""

    def __init__(
        self,
        table: NDArray[np.int64],
        moduli: NDArray[np.int64],
        steps: NDArray[np.int64],
        joined: NDArray[np.bool_],
    ) -> None:
        self.active = False
        if len(table) < 4:
            return
        self.steps = steps
        self.flip = table[:, SOURCE] ^ table[:, TARGET]
        near = np.all(table[:, [SOURCE, TARGET]] < moduli[:, [SOURCE, TARGET]], axis=1)  # no switch
        next_rank = (np.diff(table[:, SOURCE]) == 1) & (np.diff(table[:, ROUND]) == 0) & joined & near[1:] & near[:-1]
        base = _run_ends(self.flip[1:, None] * 0, next_rank & (np.diff(self.flip) == 0) & (self.flip[1:] != 0))
        self.active = bool(np.any(base - np.arange(len(base)) >= 3))
        if not self.active:
            return
        self.best = {field: self._chunk_ends(table, moduli, field, next_rank) for field in (SOURCE_CHUNK, TARGET_CHUNK)}
        self.ends = np.minimum.reduce([base, *(ends for ends, _ in self.best.values())])

    def _chunk_ends(
        self, table: NDArray[np.int64], moduli: NDArray[np.int64], field: int, joined: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], list[tuple[NDArray[np.int64], Fold | None]]]:
        """The furthest end by row, and its candidates (ends, fold; None: affine)."""
        source, chunk, index = table[:, SOURCE], table[:, field], np.arange(len(table))
        candidates: list[tuple[NDArray[np.int64], Fold | None]] = [
            (_run_ends(self.steps[:, field : field + 1], joined), None)
        ]
        ranks, length = int(moduli[0, SOURCE]), int(moduli[0, field])
        factors = {1, length // ranks} - {0} if length % ranks == 0 else {1}
        for factor in sorted(factors):
            for bit in range(ranks.bit_length()):
                for flipped in (False, True):
                    value = ((source ^ self.flip if flipped else source) >> bit << bit) * factor
                    miss = np.append((value != chunk) | (chunk >= moduli[:, field]), True)
                    ends = np.maximum(_ends(miss)[:-1] - 1, index)
                    candidates.append((ends, Fold(factor, -1 if flipped else 0, 1 << bit)))
        return np.maximum.reduce([e for e, _ in candidates]), candidates

    def end(self, i: int) -> int:
        return int(self.ends[i]) if self.active else -1

    def family(self, i: int) -> tuple[int, Five, tuple[tuple[int, Fold], ...]]:
        """The end, the steps of the fields that are affine, and the folds of the others."""
        end, flip = int(self.ends[i]), int(self.flip[i])
        by = [0, 1, 0, 0, 0]
        folds = [(TARGET, Fold(1, flip, 1))]
        for field, (_, candidates) in self.best.items():
            fold = next(fold for ends, fold in candidates if ends[i] >= end)
            if fold is None:
                by[field] = int(self.steps[i, field])
            else:
                folds.append((field, Fold(fold.factor, flip if fold.flip else 0, fold.multiple)))
        return end, (by[0], by[1], by[2], by[3], by[4]), tuple(folds)


class _Interleaved:
    """Loops over 2 to MOST_MEMBERS rows of one round."""

    def __init__(self, table: NDArray[np.int64], moduli: NDArray[np.int64], kind: NDArray[np.int32]) -> None:
        self.table, self.moduli = table, moduli
        self.steps: dict[int, NDArray[np.int64]] = {}
        self.times: dict[int, NDArray[np.int64]] = {}
        for lag in range(2, min(MOST_MEMBERS, len(table) // SHORTEST) + 1):
            steps = self.steps[lag] = _steps(table, moduli, lag)
            alike = np.all(kind[lag:] == kind[:-lag], axis=1) & np.all(moduli[lag:] == moduli[:-lag], axis=1)
            alike &= (steps[:, ROUND] == 0) & np.all(steps < 2**39, axis=1)
            keeps = alike[lag:] & alike[:-lag] & np.all(steps[lag:] == steps[:-lag], axis=1)
            ends = _ends(np.append(~keeps, True))
            self.times[lag] = (ends - np.arange(len(ends))) // lag + 2

    def family(self, i: int, more_than: int) -> RowFamily | None:
        """The family at row i that repeats most, if at least SHORTEST times and more often than `more_than`."""
        times, lag = max(((int(t[i]), -lag) for lag, t in self.times.items() if i < len(t)), default=(0, 0))
        lag = -lag
        rounds = self.table[i : i + times * lag, ROUND]
        if times < max(SHORTEST, more_than + 1) or np.any(rounds != rounds[0]):
            return None
        members = tuple(
            RowFamily(k, _five(self.table[k]), _five(self.moduli[k]), (Loop(times, _five(self.steps[lag][k])),))
            for k in range(i, i + lag)
        )
        return RowFamily(i, members[0].first, members[0].moduli, (Loop(times, (0, 0, 0, 0, 0)),), members=members)


def _nest(families: list[RowFamily], kind: NDArray[np.int32], ranks: int) -> list[RowFamily]:
    """Joins consecutive families of one shape whose first rows move by a constant into one with an outer loop."""
    if len(families) < SHORTEST:
        return families
    table = np.array([f.first for f in families], dtype=np.int64)
    moduli = np.array([f.moduli for f in families], dtype=np.int64)
    shapes: dict[object, int] = {}
    shape = np.array([shapes.setdefault((f.loops, *kind[f.row].tolist()), len(shapes)) for f in families])
    nests = np.array([_nests(f, ranks) for f in families])
    joined = nests[1:] & nests[:-1] & (shape[1:] == shape[:-1]) & np.all(moduli[1:] == moduli[:-1], axis=1)
    steps = _steps(table, moduli)
    ends = _run_ends(steps, joined)
    found, i = [], 0
    while i < len(families):
        f, end = families[i], int(ends[i])
        pair = end > i and not steps[i, ROUND] and _all_ranks(f, ranks)  # of these even two are better written as one …
        pair = pair and (end > i + 1 or ends[end] - end + 1 < SHORTEST)  # … unless the second starts a longer run
        if end - i + 1 >= SHORTEST or pair:
            found.append(replace(f, loops=(*f.loops, Loop(end - i + 1, _five(steps[i])))))
            i = end + 1
        else:
            found.append(f)
            i += 1
    return found


def _nests(f: RowFamily, ranks: int) -> bool:
    """Whether an outer loop around the family reads well: rounds may move in the outermost only."""
    if not f.loops or f.folds or f.members or any(loop.by[ROUND] for loop in f.loops):
        return False
    return f.loops[0].times >= SHORTEST or _all_ranks(f, ranks)


def _all_ranks(f: RowFamily, ranks: int) -> bool:
    times, by = f.loops[0]
    return times == ranks and f.first[SOURCE] == 0 and by[SOURCE] == 1 and not by[ROUND]


def _explode(
    families: list[RowFamily], table: NDArray[np.int64], moduli: NDArray[np.int64], ranks: int
) -> list[RowFamily]:
    """Writes pairs that stand alone as two rows, unless they are all ranks."""
    found = []
    for f in families:
        if len(f.loops) == 1 and f.loops[0].times < SHORTEST and not f.members and not _all_ranks(f, ranks):
            found += [RowFamily(i, _five(table[i]), _five(moduli[i])) for i in (f.row, f.row + 1)]
        else:
            found.append(f)
    return found


def _five(row: NDArray[np.int64]) -> Five:
    a, b, c, d, e = row.tolist()
    return a, b, c, d, e
