"""Why a collective is slow: an nccl-tests or rccl-tests log beside what its machine or cluster should reach.

    ringtree explain run.log --topology dgx-h100 --nodes 2
    ringtree explain run.log --topology topo.xml --nics 8x400Gb --fabric roce
    ringtree explain table.csv --topology gh200x4 --json why.json

Per size: measured, predicted, and the bound that nothing can beat. Then what is likely wrong, with its evidence: P2P or
GPUDirect RDMA off, one rail used, PCIe at half its width, traffic over the CPU link, sockets instead of the fabric. Run
the test with NCCL_DEBUG=INFO, and what NCCL says in between is evidence too. Where the evidence does not decide, it
says so, and what to run. Without --nodes and --gpus, both follow from the log.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ringtree.cli.options import cluster


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("log", type=Path, metavar="LOG", help="what nccl-tests printed: text, JSON, or a table as CSV")
    cluster.add_arguments(parser)
    parser.set_defaults(nodes=None)
    parser.add_argument("--collective", metavar="C", help="what the log is of, where it does not say")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write it all as JSON too")
