"""How many channels of some terms there can be at most: what cannot be better than the found ones is not searched."""

from __future__ import annotations

from ringtree.machines.channels import Pattern
from ringtree.nccl.graphs.attempt import TREES, Terms
from ringtree.nccl.graphs.system import System


def most_channels(system: System, terms: Terms) -> int:
    """At most `terms.most`. What GPUs send one another, and what the usable NICs carry, each bound it."""
    gpus = range(len(system.gpus))
    most = terms.most
    if terms.pattern in (Pattern.RING, *TREES) and len(gpus) > 1:
        closed = terms.pattern is Pattern.RING and not system.inter
        sends = sum(system.leaving_MBps(g) // terms.intra_MBps for g in gpus)
        most = min(most, sends // (len(gpus) if closed else len(gpus) - 1))
    if system.inter:
        whole_MBps = terms.inter_MBps // 1000 * 1000  # NCCL counts whole GB/s of a NIC: slower channels are free
        usable = [n for n in system.nets if _usable(system, terms, n)]
        of_nics = sum(system.net_MBps(n) // whole_MBps for n in usable) if whole_MBps else most * len(usable)
        most = min(most, of_nics)
    return most


def _usable(system: System, terms: Terms, net: int) -> bool:
    """Whether a channel can come by a NIC, and where it must leave by the same one, can do that from the right GPU."""
    into, back = system.ends(net, terms.inter)
    if terms.pattern is Pattern.RING:
        alone = len(system.gpus) == 1
        return bool(into) and (terms.cross_nic == 2 or (bool(back) and (alone or len(into | back) > 1)))
    return bool(into & back)
