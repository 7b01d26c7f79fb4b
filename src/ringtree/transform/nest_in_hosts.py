"""Hierarchical composition over hosts of any numbers of ranks, in any order: one algorithm inside, another between.

Where hosts have equally many ranks this is `nest` with its ranks renamed. Else every host cuts the vector into as many
shares as it has ranks, so that a rank of a smaller host has a larger share: the shares of Träff and Hunold (Decomposing
MPI collectives for exploiting multi-lane communication, 2020), whose hosts are equal. Collectives without shares go
through a leader of each host, as in Kielmann and others (MagPIe: MPI's collective communication operations for
clustered wide area systems, 1999).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.schedule import Block, Buffer, Column, Schedule, Transfers
from ringtree.transform.nest import nest
from ringtree.transform.nest_blocks import BLOCKWISE, nest_blocks
from ringtree.transform.one_buffer import in_place
from ringtree.transform.phases import INSIDE, Indices, Members, ScheduleBuilder, nesting_of
from ringtree.transform.relabel import relabel
from ringtree.transform.reverse import reverse
from ringtree.transform.rows import by_round, fuse, joined


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
    if collective in BLOCKWISE:
        return nest_blocks(collective, inner, outer, members, root)
    order, each = np.concatenate(members), len(members[0])
    if all(len(ranks) == each for ranks in members):
        at = None if root is None else int(np.flatnonzero(order == root)[0])
        whole = nest(collective, inner, outer, len(where), each, at)
        return whole if np.array_equal(order, np.arange(len(where))) else relabel(whole, order)
    if collective == "reduce_scatter":
        nesting_of(collective, inner, outer)
        return reverse(nest_blocks("all_gather", inner, outer, members))
    if collective == "all_gather":
        return nest_blocks(collective, inner, outer, members)
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

        return joined(
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
