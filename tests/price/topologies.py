"""Topologies and sizes on which prices are compared with schedules."""

from __future__ import annotations

from ringtree.machines.catalogue import machine
from ringtree.machines.clusters import Cluster, NetworkShape
from ringtree.topology import cluster, switch
from ringtree.topology.fabrics import FABRICS

SIZES = (64, 1 << 14, 1 << 20, 1 << 26)
WORK = {"message_s": 3e-7, "step_s": 1e-7, "copy_Bps": 40e9, "reduce_Bps": 15e9}
TOPOLOGIES = {
    "rails": Cluster(machine("dgx-h100"), 4, FABRICS["infiniband"]).topology(),
    "fat tree": Cluster(machine("dgx-h100"), 6, FABRICS["infiniband"], NetworkShape.FAT_TREE, 2.0).topology(),
    "not alike": Cluster(machine("azure-nc96"), 5, FABRICS["roce"]).topology(),
    "work": cluster(4, 8, nics=2, **WORK),
    "work away": cluster(4, 8, nics=2, away_message_s=3e-6, **WORK),
    "switch": switch(24),
}
