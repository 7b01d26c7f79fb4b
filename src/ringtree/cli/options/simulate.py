"""Play a schedule on described links: how long it would take, what it waits for, and where the links are full.

    ringtree simulate ring -n 8 --bytes 1M
    ringtree simulate double_tree -n 64 --bytes 16M --cut --topology cluster:hosts=8
    ringtree simulate ring -n 8 --bytes 8,64K,1M              a line a size
    ringtree simulate ring -n 8 --bytes 1M --straggler rank=3,delay=1ms
    ringtree simulate ring -n 8 --bytes 1M --with double_tree:broadcast:1M:20us

Bytes are those of the whole vector. A file is what `show` printed, MSCCL XML or an MSCCL++ execution plan; a function
of your own is FILE.py:FUNCTION (docs/own_algorithm.md). What cannot be proved is played with a warning. The topology
is a shape in words (direct, switch, ring, torus:dims=4x4, cluster:hosts=4,nics=2; with latency=5us, bandwidth=25GB/s,
and a rank's own costs message=, step=, copy=, reduce=), a machine by its name (`ringtree topo list`) or a topology
file, or trace:FILE: what a measured trace says of the machine it was taken on.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ringtree.cli.options import subject

ASSUMED = "switch:latency=2us,bandwidth=25GB/s"
"""A network of today's, where nothing else is said."""

WITH = "ALGORITHM:COLLECTIVE:BYTES[:START]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    subject.add_arguments(parser)
    add("--bytes", required=True, metavar="B", help="of the whole vector, such as 64K or 16M; 8,64K,16M: a line each")
    add("--cut", action="store_true", help="cut for the size as a call would have it (`ringtree show --bytes`); with "
        "trace:FILE also into the windows in which the engine goes through it")  # fmt: skip
    add("--in-place", action="store_true", help="with --cut and trace:FILE: input and output are one array")
    add("--topology", metavar="T", help=f"a shape, a machine by name or file, or trace:FILE (default {ASSUMED})")
    _add_conditions(parser)
    add("--with", dest="others", action="append", default=[], metavar=WITH, help="another collective at the same time")
    add("--slots", type=int, metavar="K", help="staging slots of a rank (default: as many as it likes)")
    add("--trace", type=Path, metavar="FILE", help="write the events as Chrome's JSON, for Perfetto and `show`")
    add("--html", type=Path, metavar="FILE", help="write them as a page, beside the schedule")


def _add_conditions(parser: argparse.ArgumentParser) -> None:
    """What is not as it should be."""
    add = parser.add_argument
    add("--straggler", action="append", default=[], metavar="rank=R,delay=T|slowdown=F", help="a late or a slow rank")
    add("--link", action="append", default=[], metavar="A-B,factor=F|failed", help="a slowed or a failed link, one way")
    add("--jitter", type=float, default=0.0, metavar="J", help="latencies are longer by chance, by J on average")
    add("--seed", type=int, default=0, metavar="S", help="what chance begins with (default 0)")
