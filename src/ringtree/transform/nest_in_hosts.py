"""Hierarchical composition over hosts of any numbers of ranks, in any order: one algorithm inside, another between.

Where hosts have equally many ranks this is `nest` with its ranks renamed. Else every host cuts the vector into as many
shares as it has ranks, so that a rank of a smaller host has a larger share: the shares of Träff and Hunold (Decomposing
MPI collectives for exploiting multi-lane communication, 2020), whose hosts are equal. Collectives without shares go
through a leader of each host, as in Kielmann and others (MagPIe: MPI's collective communication operations for
clustered wide area systems, 1999).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import lcm

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.schedule import Block, Buffer, Column, Schedule, Transfers
from ringtree.transform.nest import INSIDE, Indices, ScheduleBuilder, nest, nesting_of
from ringtree.transform.one_buffer import in_place
from ringtree.transform.relabel import relabel
from ringtree.transform.reverse import reverse
from ringtree.transform.rows import by_round, fuse, later, single

Members = list[Indices]
"""The ranks of each host, in rising order."""


def nest_in_hosts(
    collective: str, inner: ScheduleBuilder, outer: ScheduleBuilder, host_of: Sequence[int], root: int | None = None
) -> Schedule:
    """`collective` over ranks of which rank r is on host host_of[r]: `inner` in each host, `outer` between hosts.

    all_reduce: each host reduce-scatters; the ranks that own the same part of the vector, one a host, all-reduce it;
    each host all-gathers. Where inner does not serve these, and for broadcast and reduce, the hosts' leaders take part
    in outer: the root and the first rank of every other host. all_gather: a block crosses the network once to each
    host, received by a rank of about the sender's index. ValueError where inner or outer does not serve its part.
    """
    where = np.asarray(host_of)
    if where.ndim != 1 or not len(where) or where.dtype.kind not in "iu":
        raise ValueError(f"nest: hosts {host_of!r}; expected the number of each rank's host")
    members = [np.flatnonzero(where == host) for host in sorted(set(where.tolist()))]
    order, each = np.concatenate(members), len(members[0])
    if all(len(ranks) == each for ranks in members):
        at = None if root is None else int(np.flatnonzero(order == root)[0])
        whole = nest(collective, inner, outer, len(where), each, at)
        return whole if np.array_equal(order, np.arange(len(where))) else relabel(whole, order)
    if collective == "reduce_scatter":
        nesting_of(collective, inner, outer)
        return reverse(_all_gather(inner, outer, members))
    if collective == "all_gather":
        return _all_gather(inner, outer, members)
    phases = nesting_of(collective, inner, outer)
    if (INSIDE, "reduce_scatter") in phases:
        return _shared(inner, outer, members)
    return _led(collective, phases, inner, outer, members, root)


def _shared(inner: ScheduleBuilder, outer: ScheduleBuilder, members: Members) -> Schedule:
    """all_reduce by shares: a part of the vector begins where a share of some host does."""
    sizes = [len(ranks) for ranks in members]
    down, up = (
        {c: in_place(inner.build(what, c)) for c in sizes if c > 1} for what in ("reduce_scatter", "all_gather")
    )
    between = in_place(outer.build("all_reduce", len(members)))
    unit = lcm(*sizes, *(s.chunks for s in (*down.values(), *up.values())))
    chunks = unit * between.chunks
    edges = np.array(sorted({k * (chunks // c) for c in set(sizes) for k in range(c + 1)}))
    first, length = edges[:-1], np.diff(edges)
    owners = np.stack([ranks[first // (chunks // len(ranks))] for ranks in members])  # [host, part]
    parts = _Copies(owners, first, length // between.chunks)
    rows = [
        by_round([_Copies.whole(ranks, s, chunks).rows(s) for ranks in members if (s := made.get(len(ranks)))])
        for made in (down, up)
    ]
    blocks = (rows[0], parts.rows(between), rows[1])
    scratch = [parts.scratch(between)]
    scratch += [s.scratch * (chunks // s.chunks) for made in (down, up) for s in made.values()]
    ranks = sum(sizes)
    return Schedule(
        f"{inner.name}+{outer.name}",
        "all_reduce",
        ranks,
        chunks,
        tuple(Block(b) for b in blocks if len(b)),
        None,
        max(scratch),
    )


def _led(
    collective: str,
    phases: Sequence[tuple[str, str]],
    inner: ScheduleBuilder,
    outer: ScheduleBuilder,
    members: Members,
    root: int | None,
) -> Schedule:
    """Through the leaders: the root, and the first rank of every host without it."""
    heads = [int(np.flatnonzero(ranks == root)[0]) if root in ranks else 0 for ranks in members]
    leaders = np.array([ranks[head] for ranks, head in zip(members, heads, strict=True)])
    top = next((h for h, ranks in enumerate(members) if root in ranks), 0)
    placed: list[list[tuple[Indices, Schedule]]] = []
    for where, what in phases:
        if where is INSIDE:
            hosts = [(ranks, head) for ranks, head in zip(members, heads, strict=True) if len(ranks) > 1]
            placed.append([(ranks, in_place(inner.build(what, len(ranks), head))) for ranks, head in hosts])
        else:
            at = top if what in ("broadcast", "reduce") else None
            placed.append([(leaders, in_place(outer.build(what, len(leaders), at)))])
    chunks = lcm(*(s.chunks for phase in placed for _, s in phase))
    rows = [by_round([_Copies.whole(ranks, s, chunks).rows(s) for ranks, s in phase]) for phase in placed]
    blocks = tuple(Block(b) for b in rows if len(b))
    return Schedule(
        f"{inner.name}+{outer.name}",
        collective,
        sum(map(len, members)),
        chunks,
        fuse(blocks) if collective in ("broadcast", "reduce") else blocks,  # one block: so all of it pipelines
        root,
        max(s.scratch * (chunks // s.chunks) for phase in placed for _, s in phase),
    )


class _Copies:
    """Copies of a schedule on the whole, side by side: its rank r is ranks[r, copy], its chunk c the `widths[copy]`
    chunks from firsts[copy] + c * widths[copy] on."""

    def __init__(self, ranks: Indices, firsts: Indices, widths: Indices) -> None:
        self._ranks, self._firsts, self._widths = ranks, firsts, widths
        before = np.zeros(int(ranks.max()) + 1, np.int64)
        self._aside = np.empty(ranks.shape, np.int64)  # where a copy's scratch begins, in chunks of the schedule's
        for copy, width in enumerate(widths.tolist()):  # a rank may be in several copies
            self._aside[:, copy] = before[ranks[:, copy]]
            before[ranks[:, copy]] += width
        self._most = int(before.max())

    @staticmethod
    def whole(ranks: Indices, schedule: Schedule, chunks: int) -> _Copies:
        """One copy on all of the vector."""
        return _Copies(ranks[:, None], np.array([0]), np.array([chunks // schedule.chunks]))

    def scratch(self, schedule: Schedule) -> int:
        """The scratch chunks that the copies need."""
        return schedule.scratch * self._most

    def rows(self, schedule: Schedule) -> Transfers:
        """A row of the schedule for all copies one after the other, so that neighbours on the whole are one."""
        rows = schedule.expand()

        def wide(column: NDArray[np.generic]) -> NDArray[np.generic]:
            return np.repeat(column, len(self._widths))

        def chunk(rank: Column, buffer: Column, at: Column) -> Indices:
            aside = self._aside[rank] * schedule.scratch
            start = np.where((buffer == Buffer.SCRATCH)[:, None], aside, self._firsts)
            whole: Indices = start + at[:, None].astype(np.int64) * self._widths
            return whole.reshape(-1)

        return _joined(
            Transfers.of(
                self._ranks[rows.source].reshape(-1),
                self._ranks[rows.target].reshape(-1),
                chunk(rows.source, rows.source_buffer, rows.source_chunk),
                to=chunk(rows.target, rows.target_buffer, rows.target_chunk),
                count=(rows.count[:, None] * self._widths).reshape(-1),
                reduce=wide(rows.reduce),
                round=wide(rows.round),
                source_buffer=wide(rows.source_buffer),
                target_buffer=wide(rows.target_buffer),
            )
        )


def _all_gather(inner: ScheduleBuilder, outer: ScheduleBuilder, members: Members) -> Schedule:
    """Between hosts, the ranks of index k in their hosts gather their blocks; in a host of fewer ranks, rank k modulo
    their number receives them. Then every host gathers what its ranks have received."""
    nesting_of("all_gather", inner, outer)
    sizes = [len(ranks) for ranks in members]
    between = _by_blocks(outer.build("all_gather", len(members)))
    inside = {c: _by_blocks(inner.build("all_gather", c)) for c in sizes if c > 1}
    unit = lcm(*(s.chunks // s.ranks for s in (between, *inside.values())))
    across, home = list[Transfers](), list[Transfers]()
    for k in range(max(sizes)):
        own = [ranks[k : k + 1] for ranks in members]  # none in a host of fewer ranks
        across.append(_gathered(between, np.array([ranks[k % len(ranks)] for ranks in members]), own, unit))
    for at, there in enumerate(members):  # the blocks of a host in rounds of their own: fewer messages wait in slots
        for c, schedule in inside.items():
            received = [there[j::c] for j in range(c)]
            rows = [_gathered(schedule, ranks, received, unit) for ranks in members if len(ranks) == c]
            home += [later(part, at * schedule.rounds) for part in rows]
    blocks = tuple(Block(rows) for rows in (by_round(across), by_round(home)) if len(rows))
    ranks = sum(sizes)
    return Schedule(f"{inner.name}+{outer.name}", "all_gather", ranks, ranks * unit, blocks)


def _by_blocks(schedule: Schedule) -> Schedule:
    """The all_gather in place, one chunk a row; ValueError where it moves a chunk by way of another position."""
    rows = single(in_place(schedule).expand())
    data = (rows.source_buffer == Buffer.DATA) & (rows.target_buffer == Buffer.DATA)
    if not np.all(data & (rows.source_chunk == rows.target_chunk)):
        raise ValueError(f"nest: {schedule.name} moves blocks by way of scratch; blocks of unequal lengths do not fit")
    return replace(schedule, blocks=(Block(rows),))


def _gathered(schedule: Schedule, ranks: Indices, blocks: list[Indices], unit: int) -> Transfers:
    """The schedule's rows for these ranks, of which rank r begins with blocks[r] of the whole, `unit` chunks each."""
    rows, size = schedule.blocks[0].rows, schedule.chunks // schedule.ranks
    pieces: list[Indices] = []  # by chunk of the schedule, its chunks on the whole
    for mine in blocks:
        chunks = (np.sort(mine)[:, None] * unit + np.arange(unit)).reshape(-1)
        pieces += np.split(chunks, size)
    lengths = np.array([len(piece) for piece in pieces])
    starts = np.cumsum(lengths) - lengths
    chunk = rows.source_chunk
    index = np.arange(len(rows)).repeat(lengths[chunk])
    within = np.arange(len(index)) - (np.cumsum(lengths[chunk]) - lengths[chunk])[index]
    whole = np.concatenate(pieces)[starts[chunk[index]] + within]
    return _joined(Transfers.of(ranks[rows.source[index]], ranks[rows.target[index]], whole, round=rows.round[index]))


def _joined(rows: Transfers) -> Transfers:
    """The same rows; those that follow one another in the list and on the vector are one."""
    if len(rows) < 2:
        return rows
    same = np.ones(len(rows) - 1, np.bool_)
    for name in ("round", "source", "target", "source_buffer", "target_buffer", "reduce"):
        column = getattr(rows, name)
        same &= column[1:] == column[:-1]
    for column in (rows.source_chunk, rows.target_chunk):
        same &= column[1:] == column[:-1] + rows.count[:-1]
    first = np.flatnonzero(np.append(True, ~same))
    return replace(rows.take(first), count=np.add.reduceat(rows.count, first).astype(np.int32))
