"""Simulate a schedule on a topology: its time, critical path and busiest links.

    ringtree simulate ring -n 8 --bytes 1M
    ringtree simulate double_tree -n 64 --bytes 16M --cut --topology cluster:hosts=8
    ringtree simulate ring --topology dgx-1-v100 --gpus 0,1,2,4,5,6 --bytes 64M
    ringtree simulate ring -n 8 --bytes 8,64K,1M              one line per size
    ringtree simulate ring -n 8 --bytes 1M --straggler rank=3,delay=1ms
    ringtree simulate ring -n 8 --bytes 1M --with double_tree:broadcast:1M:20us
    ringtree simulate ring --hosts 2,2,2 --rate 2gbit --latency 50us --bytes 1M --cut
    ringtree simulate ring_8.xml --topology mi300x8 --fit times_8.csv --out mi300x.json
    ringtree simulate ring_8.xml --constants mi300x.json --bytes 1M
    ringtree simulate ring -n 8 --bytes 1M --goal ring.goal --chakra ring
    ringtree simulate ring.goal                               and ring.0.et, a file of an execution trace

Sizes are bytes of the whole vector. FILE is output of `show`, MSCCL XML or an MSCCL++ execution plan; a function of
your own is FILE.py:FUNCTION (docs/own_algorithm.md). A schedule that cannot be proved is simulated with a warning. The
topology is a shape (direct, switch, ring, torus:dims=4x4, cluster:hosts=4,nics=2; with latency=5us, bandwidth=25GB/s,
and costs of a rank message=, step=, copy=, reduce=), the name of a machine (`ringtree topo list`), a topology file, or
trace:FILE: costs fitted to a measured trace. With --hosts the ranks share memory in each host, as this machine's, and
reach the others over a network. With --constants a program's thread blocks are played as a device runs them, by
constants that --fit found from measured times.

FILE may also be a GOAL schedule (LogGOPSim, ATLAHS) or a file of a Chakra execution trace (ASTRA-sim): these have their
own ranks and sizes, and no data to prove (docs/other_simulators.md).
"""

from __future__ import annotations

import argparse

from ringtree.cli.options import cluster, subject
from ringtree.cli.options.files import FileRead, Functions, MayBeFile, ProgramAndTable, name_to_write, to_write

ASSUMED = "switch:latency=2us,bandwidth=25GB/s"
"""Topology assumed where none is given: the latency and rate of a current network."""

WITH = "ALGORITHM:COLLECTIVE:BYTES[:START]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `ringtree simulate`."""
    add = parser.add_argument
    subject.add_arguments(parser)
    add(
        "--bytes",
        metavar="B",
        help="size of the whole vector, such as 64K or 16M; several such as 8,64K,16M print a line each; none for a "
        "barrier, which moves no data",
    )
    add("--cut", action="store_true", help="cut the schedule as a call of that size would (`show --bytes`); with "
        "trace:FILE or --hosts also into the engine's windows of elements")  # fmt: skip
    add("--in-place", action="store_true", help="with --cut, and trace:FILE or --hosts: input and output are one array")
    add(
        "--topology",
        type=MayBeFile,
        metavar="T",
        help=f"a shape, a machine by name or file, or trace:FILE (default {ASSUMED})",
    )
    _add_machines(parser)
    _add_hosts(parser)
    _add_conditions(parser)
    add(
        "--with",
        dest="others",
        type=Functions,
        action="append",
        default=[],
        metavar=WITH,
        help="another collective at the same time",
    )
    _add_device(parser)
    add("--slots", type=int, metavar="K", help="staging slots of a rank (default: unlimited)")
    add(
        "--trace",
        type=to_write,
        metavar="FILE",
        help="write the events as a trace (Chrome JSON, for Perfetto and `ringtree show`)",
    )
    add("--html", type=to_write, metavar="FILE", help="write a page with the schedule and its events")
    _add_operations(parser)


def _add_operations(parser: argparse.ArgumentParser) -> None:
    """Adds files of other simulators, written and read."""
    add = parser.add_argument
    add("--goal", type=to_write, metavar="FILE", help="write the schedule as GOAL, for LogGOPSim and ATLAHS; copies "
        "and reductions take what they cost on the topology")  # fmt: skip
    add(
        "--chakra",
        type=name_to_write,
        metavar="NAME",
        help="write it as Chakra execution traces NAME.RANK.et, for ASTRA-sim",
    )
    add(
        "--expand",
        type=Functions,
        metavar="A",
        help="the algorithm that a trace's collectives are expanded by, where it serves them (default: the quickest)",
    )
    add(
        "--groups",
        type=FileRead,
        metavar="FILE",
        help="ranks of a trace's communicators, as ASTRA-sim has them in JSON",
    )


def _add_machines(parser: argparse.ArgumentParser) -> None:
    """Adds how many of a machine there are, which of its GPUs are used, and the network."""
    cluster.add_arguments(parser.add_argument_group("with a machine as --topology"), named=False)
    parser.set_defaults(nodes=None)  # as many as the ranks need


def _add_hosts(parser: argparse.ArgumentParser) -> None:
    """Adds hosts and the network between them, in place of a topology."""
    add = parser.add_argument
    add("--hosts", metavar="N,N", help="ranks on each of several hosts, such as 2,2,2, in place of a topology")
    add("--rate", metavar="R", help="of a host's link: 2gbit, 2Gb/s or 250MB/s (with --hosts; default 10gbit)")
    add("--latency", metavar="T", help="of a message between hosts: 60us (with --hosts; default 30us)")
    add("--share-cores", action="store_true", help="the hosts are containers of one machine, whose cores they share "
        "(with --hosts; default: each has as many)")  # fmt: skip


def _add_device(parser: argparse.ArgumentParser) -> None:
    """Adds thread blocks on a device: constants, and their fit to measured times."""
    add = parser.add_argument
    add("--fit", action="append", type=ProgramAndTable, default=[], metavar="[PROGRAM=]TABLE", help="fit a device's "
        "constants to a table of nccl-tests, text or CSV, of the program or another FILE; may be repeated")  # fmt: skip
    add("--out", type=to_write, metavar="FILE", help="write the fitted constants (with --fit)")
    add("--constants", type=FileRead, metavar="FILE", help="play thread blocks on a device of these constants")
    add("--channels", type=int, metavar="K", help="thread blocks of an algorithm, each with its part of every chunk "
        "(with --constants or --fit; default 1; a file has its own)")  # fmt: skip
    add("--measured", type=FileRead, metavar="TABLE", help="print simulated times beside a table's (with --constants)")


def _add_conditions(parser: argparse.ArgumentParser) -> None:
    """Adds stragglers, slow links and jitter."""
    add = parser.add_argument
    add("--straggler", action="append", default=[], metavar="rank=R,delay=T|slowdown=F", help="a late or a slow rank")
    add("--link", action="append", default=[], metavar="A-B,factor=F|failed", help="a slowed or a failed link, one way")
    add("--jitter", type=float, metavar="J", help="lengthen latencies at random, by a share J on average")
    add("--seed", type=int, metavar="S", help="seed of the random numbers (with --jitter; default 0)")
