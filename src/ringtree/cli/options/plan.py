"""What a collective should reach on a machine or a cluster, by which algorithm, and how far that is from the possible.

    ringtree plan all_reduce --topology dgx-h100 --nodes 4 --bytes 8:8G
    ringtree plan all_gather --topology gcp-a3-high --nodes 2 --bytes 1M,64M,1G --all
    ringtree plan all_reduce --topology topo.xml --gpus 4 --bytes 64M:1G --json rows.json
    ringtree plan all_reduce --topology rtx4090-pcie --nodes 2 --nics 1x100Gb --fabric roce --bytes 1M
    ringtree plan all_reduce -n 4 --bytes 1M                   on this machine, by ringtree itself

With --topology: nccl-tests' table, without GPUs. Bytes are those of the whole vector. The algorithm, protocol and
channels are those NCCL picks by its own estimate; the time is our model's (--model nccl: NCCL's estimate). The last
columns say how much of the possible that is, and what holds it up. Without --topology: what a Communicator of -n
ranks chooses here, and why.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ringtree.cli.options import cluster


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("collective", metavar="COLLECTIVE", help="all_reduce, all_gather, reduce_scatter, broadcast, reduce, …")
    add("--bytes", default="8:8G", metavar="B", help="8:8G (doubling), 8:8G:4 (times 4), or 1M,64M (default 8:8G)")
    add("-n", "--ranks", type=int, metavar="N", help="ranks of this machine (default 2)")
    cluster.add_arguments(parser)
    add("--model", default="transport", choices=("transport", "nccl"), help="whose time (default transport: ours)")
    add("--algorithm", metavar="A", help="only this one, as NCCL_ALGO forces it: ring, tree, nvls, …")
    add("--protocol", metavar="P", help="only this one, as NCCL_PROTO forces it: ll, ll128 or simple")
    add("--all", action="store_true", help="every candidate, not the pick alone")
    add("--json", type=Path, metavar="FILE", help="write the rows as JSON")
    add("--export-graph", type=Path, metavar="FILE", help="write the rings and trees as NCCL_GRAPH_FILE reads them")
    add(
        "--export-tuner", type=Path, metavar="FILE", help="write the quickest choices as NCCL's tuner plugin reads them"
    )
