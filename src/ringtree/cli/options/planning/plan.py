"""Predict time and algorithm of a collective on a machine or a cluster, and compare the time with its lower bound.

    ringtree plan all_reduce --topology dgx-h100 --nodes 4 --bytes 8:8G
    ringtree plan all_gather --topology gcp-a3-high --nodes 2 --bytes 1M,64M,1G --all
    ringtree plan all_reduce --topology topo.xml --gpus 4 --bytes 64M:1G --json rows.json
    ringtree plan all_reduce --topology rtx4090-pcie --nodes 2 --nics 1x100Gb --fabric roce --bytes 1M
    ringtree plan all_reduce -n 4 --bytes 1M                   on this machine, by ringtree's own engine
    ringtree plan all_reduce --hosts 2,2,2 --rate 2gbit --latency 60us      by ringtree's own engine, over hosts

With --topology: a table as nccl-tests prints it, predicted without GPUs. Sizes are bytes of the whole vector.
Algorithm, protocol and channels are NCCL's choice by NCCL's own estimate; the time is from ringtree's model
(--model nccl: NCCL's estimate), with the interval of about 80 of 100 measurements. The last columns are lower bound
over time, and the bottleneck. Without --topology: the
algorithm that a Communicator of -n ranks chooses on this machine, and why. With --hosts (the ranks of each host, in
order) or --tuned (a file that `ringtree tune` wrote over hosts): what such ranks choose, how it is cut, what of its
time network and memory cost, the least time of the network's narrowest cut, and the choice at another latency.
"""

from __future__ import annotations

import argparse

from ringtree.cli.options import cluster
from ringtree.cli.options.collective import collective_name
from ringtree.cli.options.files import FileRead, to_write

OF_CLUSTERS = (*cluster.OPTIONS, "nccl", "model", "algorithm", "protocol", "export_graph", "export_tuner")
"""Arguments that are for clusters alone."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `ringtree plan`."""
    add = parser.add_argument
    add(
        "collective",
        type=collective_name,
        metavar="COLLECTIVE",
        help="all_reduce, all_gather, reduce_scatter, broadcast, reduce, …",
    )
    add(
        "--bytes",
        metavar="B",
        help="8:8G (doubling), 8:8G:4 (times 4), or 1M,64M (default 8:8G; over hosts 8:64M:8); none for a barrier",
    )
    add(
        "-n",
        "--ranks",
        type=int,
        metavar="N",
        help="ranks on this machine (default 2); for a cluster use --topology and --nodes",
    )
    add("--hosts", metavar="N,N", help="ranks on each of several hosts, such as 2,2,2")
    add("--rate", metavar="R", help="of a host's link: 2gbit, 2Gb/s or 250MB/s (with --hosts; default: as tuned)")
    add("--latency", metavar="T", help="of a message between hosts: 60us (with --hosts; default: as tuned)")
    add(
        "--tuned",
        type=FileRead,
        metavar="FILE",
        help="a file of `ringtree tune` over hosts (default with --hosts: as init() reads)",
    )
    add("--beside", metavar="T", help="over hosts: another latency, whose choice is shown beside (default 1ms)")
    add("-b", "--minbytes", metavar="SIZE", help="first size, in place of --bytes (default 8)")
    add("-e", "--maxbytes", metavar="SIZE", help="largest size (default 8G; over hosts 64M)")
    add("-f", "--stepfactor", type=float, metavar="F", help="factor between sizes (default 2; over hosts 8)")
    cluster.add_arguments(parser)
    cluster.add_release(parser, "unknown, taken for 2.30")
    add(
        "--model",
        choices=("transport", "nccl"),
        help="source of the time: transport (default, ringtree's model) or nccl (NCCL's estimate)",
    )
    add("--algorithm", metavar="A", help="force this algorithm, as NCCL_ALGO does: ring, tree, nvls, …")
    add("--protocol", metavar="P", help="force this protocol, as NCCL_PROTO does: ll, ll128 or simple")
    add("--all", action="store_true", help="list every candidate, not only the chosen one")
    add("--json", type=to_write, metavar="FILE", help="write the rows as JSON")
    add("--export-graph", type=to_write, metavar="FILE", help="write rings and trees as a file for NCCL_GRAPH_FILE")
    add(
        "--export-tuner",
        type=to_write,
        metavar="FILE",
        help="write a file for NCCL's tuner plugin: the choices that are predicted to be at least 5 %% faster than "
        "NCCL's own, for the sizes of --bytes alone; with --algorithm or --protocol, that one",
    )
