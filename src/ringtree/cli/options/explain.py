"""Find why a collective is slow: compare an nccl-tests or rccl-tests log with the prediction for its machines.

    ringtree explain run.log --topology dgx-h100 --nodes 2
    ringtree explain run.log --topology topo.xml --nics 8x400Gb --fabric roce
    ringtree explain table.csv --topology gh200x4 --json why.json

Prints measured time, predicted time and lower bound of every size, then the likely cause and its evidence: P2P or
GPUDirect RDMA off, one rail used, PCIe at half its width, traffic over the CPU link, sockets instead of the fabric.
With NCCL_DEBUG=INFO, NCCL's own lines in the log are evidence too. Where the evidence fits several causes, the report
lists them and the commands that decide. Without --nodes and --gpus, both are derived from the log.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ringtree.cli.options import cluster


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `ringtree explain`."""
    parser.add_argument("log", type=Path, metavar="LOG", help="output of nccl-tests: text, JSON, or a table as CSV")
    cluster.add_arguments(parser)
    parser.set_defaults(nodes=None)
    parser.add_argument("--collective", metavar="C", help="collective of the log, where the log does not name it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the report as JSON")
