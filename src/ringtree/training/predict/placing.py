"""The place of a layout's groups on a cluster: rank r is GPU r mod G of machine r // G, for machines of G GPUs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ringtree.ir.units import count
from ringtree.training.core.layout import ParallelLayout

Gpus = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """A group on `nodes` machines, on the same `gpus` of each, by local rank; `differs`: or on others, which are alike;
    `beside`: of several machines, the GPUs of every group of its axis, its own among them, that leaves one of these
    machines at the same time."""

    nodes: int
    gpus: Gpus
    beside: tuple[Gpus, ...] = ()
    differs: bool = False

    @property
    def words(self) -> str:
        """`8 GPUs of a machine`, or `1 GPU of each of 16 machines`."""
        gpus = count(len(self.gpus), "GPU")
        if self.nodes == 1:
            return f"{gpus} of a machine"
        return f"{gpus} of each of {self.nodes} machines{', not of the same numbers but alike' if self.differs else ''}"


def groups_of(layout: ParallelLayout, axis: str, between: tuple[int, int] | None) -> list[tuple[int, ...]]:
    """The groups along an axis; for messages between two positions along it, (sender, receiver) of each."""
    groups = layout.groups(axis)
    return list(groups) if between is None else [(g[between[0]], g[between[1]]) for g in groups]


def placed(
    groups: Sequence[tuple[int, ...]], of: Iterable[int], gpus: int, alike: Callable[[Gpus, Gpus], bool]
) -> tuple[set[Placed], set[str]]:
    """The places of those of the groups that `of` numbers, on machines of `gpus` GPUs; and why others have none: their
    ranks are not on the same GPUs of each machine, nor on such as are `alike`."""
    on = [_by_node(group, gpus) for group in groups]
    leaving: dict[int, list[Gpus]] = defaultdict(list)
    for nodes in on:
        for node, local in nodes.items() if len(nodes) > 1 else ():
            leaving[node].append(local)
    found, without = set[Placed](), set[str]()
    for nodes in (on[k] for k in of):
        first, *others = sorted(set(nodes.values()))
        if not all(len(first) == len(other) and alike(first, other) for other in others):
            without.add(_uneven(nodes))
            continue
        busiest = max(nodes, key=lambda node: len(leaving[node]))
        beside = tuple(sorted(leaving[busiest])) if len(nodes) > 1 else ()
        found.add(Placed(len(nodes), nodes[busiest], beside, bool(others)))
    return found, without


def _by_node(group: tuple[int, ...], gpus: int) -> dict[int, Gpus]:
    nodes: dict[int, list[int]] = defaultdict(list)
    for rank in group:
        nodes[rank // gpus].append(rank % gpus)
    return {node: tuple(sorted(local)) for node, local in nodes.items()}


def _uneven(nodes: dict[int, Gpus]) -> str:
    counts = sorted({len(local) for local in nodes.values()})
    if len(counts) > 1:
        of = " and ".join(map(str, counts))
        return f"a group's ranks are {of} to a machine; NCCL's model has as many on each"
    where = "a group's ranks are on other GPUs in one machine than in the next"
    return f"{where}, and these are not alike, as NCCL's model has them"
