"""How many channels of some terms there can be at most: what cannot be better than the found ones is not searched."""

from __future__ import annotations

from ringtree.search.attempt import TREES, Terms
from ringtree.search.system import System
from ringtree.topology.channels import Pattern


def most_channels(system: System, terms: Terms) -> int:
    """At most `terms.most`. What GPUs send one another, and what the usable NICs carry, each bound it."""
    gpus = range(len(system.gpus))
    most = terms.most
    if terms.pattern is not Pattern.NVLS and len(gpus) > 1:
        hops = len(gpus) if terms.pattern is Pattern.RING and not system.inter else len(gpus) - 1
        if terms.pattern in (Pattern.RING, *TREES):
            most = min(most, sum(system.leaving_MBps(g) // terms.intra_MBps for g in gpus) // hops)
    if system.inter:
        share = max(terms.inter_MBps // 1000 * 1000, 1)
        nets = (n for n in system.nets if _usable(system, terms, n))
        most = min(most, sum(system.net_MBps(n) // share for n in nets) if terms.inter_MBps >= 1000 else most)
    return most


def _usable(system: System, terms: Terms, net: int) -> bool:
    """Whether a channel can come by a NIC, and where it must leave by the same one, can do that from the right GPU."""
    into, back = system.ends(net, terms.inter)
    if terms.pattern is Pattern.RING:
        alone = len(system.gpus) == 1
        return bool(into) and (terms.cross_nic == 2 or (bool(back) and (alone or len(into | back) > 1)))
    return bool(into & back)
