"""Rings and trees in different orders of the ranks on machines that are not symmetric: predicted, and simulated.

python examples/locality.py
"""

from ringtree import price
from ringtree.algorithms import build
from ringtree.machines.catalogue import machine
from ringtree.machines.clusters import Cluster
from ringtree.search import arrange, order, rings
from ringtree.simulate import play
from ringtree.transform import relabel, share

NBYTES = 256 << 20
V100 = machine("dgx-1-v100")
MACHINES = {
    "dgx-1-v100": V100,
    "dgx-1-v100 without GPUs 3, 7": V100.part((0, 1, 2, 4, 5, 6)),
    "azure-nc96": machine("azure-nc96"),
    "dgx-h100": machine("dgx-h100"),
}


def line(name, schedules, topology, nbytes, unit_s, note=""):
    """Prints what each schedule takes."""
    columns = ""
    for schedule in schedules:
        predicted, played = price.seconds(schedule, topology, nbytes), play(schedule, topology, nbytes).time_s
        columns += f"{predicted / unit_s:9.2f} ({played / unit_s:5.2f})"
    print(f"{name:29}{columns}{note}")


if __name__ == "__main__":
    print(f"all_reduce of {NBYTES >> 20} MiB by rings, ms predicted (and simulated)")
    print(f"{'':29}{'in rank order':>17}{'in order()':>17}{'in rings()':>17}")
    for name, where in MACHINES.items():
        topology, found = Cluster(where).topology(), rings(where)
        plain = build("ring", "all_reduce", topology.ranks)
        schedules = (plain, relabel(plain, order(where)), share(*(relabel(plain, ring) for ring in found)))
        line(name, schedules, topology, NBYTES, 1e-3, f"  {len(found)} side by side")
    for algorithm, collective in (("double_tree", "all_reduce"), ("binomial", "broadcast")):
        print(f"\n{collective} of 4 KiB by {algorithm}, us predicted (and simulated)")
        print(f"{'':29}{'in rank order':>17}{'arranged':>17}")
        for name, where in MACHINES.items():
            topology = Cluster(where).topology()
            plain = build(algorithm, collective, topology.ranks)
            line(name, (plain, relabel(plain, arrange(plain, where, 4096))), topology, 4096, 1e-6)
