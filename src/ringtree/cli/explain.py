"""An nccl-tests log, beside what is predicted: `ringtree explain`."""

from __future__ import annotations

import argparse

from ringtree.cli import cluster_options, explain_text
from ringtree.cli.destination import check_destination
from ringtree.cli.subject import THEIRS
from ringtree.formats.replacing import replace_with_json
from ringtree.machines.files.reading import find
from ringtree.nccl.explain import explain
from ringtree.nccl.files import nccl_tests
from ringtree.nccl.files.nccl_tests import Log


def run(args: argparse.Namespace) -> int:
    if args.topology is None:
        raise ValueError("no --topology: expected a name that `ringtree topo list` knows, or a topology file")
    if args.json:
        check_destination(args.json, args.log)
    log = nccl_tests.read(args.log, THEIRS.get(args.collective, args.collective) or "")
    assumed = _fill(args, log)
    found = explain(log, cluster_options.cluster(args))
    for line in explain_text.lines(found, assumed):
        print(line)
    if args.json:
        replace_with_json(args.json, explain_text.record(found))
    return 0


def _fill(args: argparse.Namespace, log: Log) -> list[str]:
    """How many nodes, and which GPUs, where only the log tells; what was taken, in words."""
    there, out = len(find(args.topology).gpus), list[str]()
    ranks = log.ranks
    if args.nodes is None:
        args.nodes = log.nodes or max(-(-ranks // there), 1) if there else 1
        out.append(f"nodes: {args.nodes}, by the log's {'hosts' if log.nodes else f'{ranks} ranks'}")
    each = ranks // args.nodes if args.nodes > 0 and ranks % args.nodes == 0 else 0
    if not args.gpus and 0 < each < there:
        host = next((r.host for r in log.ran), "")
        named = sorted({r.device for r in log.ran if r.host == host})
        if len(named) != each or named[-1] >= there:
            named = list(range(each))
        args.gpus = ",".join(map(str, named)) if each > 1 else "1"
        out.append(f"GPUs of each node: {', '.join(map(str, named))} (--gpus says which otherwise)")
    return out
