"""What goes directly in a machine, and by which rule: how many pairs of GPUs, and GPUs with their nearest NICs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import NamedTuple

from ringtree.machines.paths import Paths, Verdict, gdr, p2p
from ringtree.topology.fabrics import Fabric


class Rule(NamedTuple):
    """`what` ("p2p" or "gdr") applies to `found` of the `total`, or does not; `why` tells it of the first of them."""

    what: str
    applies: bool
    found: int
    total: int
    why: str


def rules(paths: Paths, fabric: Fabric | None = None) -> tuple[Rule, ...]:
    """For P2P, then for GPUDirect RDMA: what applies before what does not."""
    gpus = range(len(paths.machine.gpus))
    pairs = [p2p(paths, a, b) for a, b in combinations(gpus, 2)]
    near = [gdr(paths, g, nic, fabric) for g in gpus for nic in paths.nearest_nics(g)[:1]]
    alone = [Verdict(False, "no NIC to do it with")] * (len(gpus) - len(near))
    return (*_ruled("p2p", pairs), *_ruled("gdr", near + alone))


def _ruled(what: str, verdicts: Iterable[Verdict]) -> Iterator[Rule]:
    """A rule's reason begins with the kind of path where that decides."""
    found: dict[tuple[bool, str], list[str]] = {}
    for verdict in verdicts:
        kind = verdict.why.partition(" between ")[0] if " between " in verdict.why else ""
        found.setdefault((verdict.applies, kind), []).append(verdict.why)
    total = sum(map(len, found.values()))
    for (applies, _), whys in sorted(found.items(), key=lambda rule: not rule[0][0]):
        yield Rule(what, applies, len(whys), total, whys[0])
