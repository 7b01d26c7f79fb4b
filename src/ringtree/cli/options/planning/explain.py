"""Find why a job hangs, from the dumps of its flight recorders; or why a collective is slow, from an nccl-tests log.

    ringtree explain rank_0 rank_1 rank_2 rank_3
    ringtree explain FOLDER
    ringtree explain run.log --topology dgx-h100 --nodes 2
    ringtree explain run.log --topology topo.xml --nics 8x400Gb --fabric roce
    ringtree explain table.csv --topology gh200x4 --json why.json

Dumps (one file a rank, pickled or JSON: PyTorch's, for NCCL or Gloo, and those that ringtree's ranks write when a call
fails) are compared: which rank diverged first and how, who waits for whom, in which call of which group. A folder
stands for the dumps in it. No file's code is run.

A log of nccl-tests or rccl-tests is compared with the prediction for its machines. Prints measured time, predicted time
with its interval, and lower bound of every size, then the likely cause and its evidence: P2P or GPUDirect RDMA off,
ACS, one rail used, a slow NIC or PCIe, traffic over the CPU link, sockets instead of the fabric, a forced protocol; or
why the log is faster than predicted. With NCCL_DEBUG=INFO, NCCL's own lines in the log are evidence too. Where the
evidence fits several causes, the report lists them and the commands that decide.
Without --nodes, --gpus and --nccl, they are derived from the log.
"""

from __future__ import annotations

import argparse

from ringtree.cli.options import cluster
from ringtree.cli.options.collective import collective_name
from ringtree.cli.options.files import FileRead, to_write


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `ringtree explain`."""
    parser.add_argument(
        "files",
        nargs="+",
        type=FileRead,
        metavar="LOG|DUMPS",
        help="output of nccl-tests: text, JSON, or a table as CSV; or flight recorders' dumps, or their folder",
    )
    cluster.add_arguments(parser)
    cluster.add_release(parser, "the log's; where it has none, unknown, taken for 2.30")
    parser.set_defaults(nodes=None)
    parser.add_argument(
        "--collective", type=collective_name, metavar="C", help="collective of the log, where the log does not name it"
    )
    parser.add_argument("--json", type=to_write, metavar="FILE", help="also write the report as JSON")
