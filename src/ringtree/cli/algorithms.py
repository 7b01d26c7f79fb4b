"""List the algorithms: what each serves, its rounds and bytes for n ranks and S bytes, and who published it."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--collective", metavar="C", help="only those that serve this collective")
    parser.add_argument("--markdown", action="store_true", help="as the README's table")


def run(args: argparse.Namespace) -> int:
    from ringtree.algorithms import REGISTRY
    from ringtree.cli.terminal import console
    from ringtree.draw.tables import markdown
    from ringtree.ir.collective import collective

    if args.collective:
        collective(args.collective)
    head = ("algorithm", "collective", "rounds", "bytes sent by the busiest rank", "source")
    rows = [
        (name, c, cost.rounds, cost.sent, algorithm.source)
        for name, algorithm in REGISTRY.items()
        for c, cost in algorithm.costs.items()
        if args.collective in (None, c)
    ]
    if args.markdown:
        print(markdown(head, rows))
        return 0
    from rich.table import Table

    table = Table(*head, box=None, pad_edge=False, header_style="bold")
    before = None
    for name, *cells in rows:
        source = cells.pop() if name != before else cells.pop() and ""
        table.add_row(name if name != before else "", *cells, source)
        before = name
    screen = console()
    screen.print(table)
    screen.print(
        "[dim]n ranks, S bytes in the whole vector; lg: logarithm to base 2, rounded up; "
        "p: the largest power of two up to n[/]"
    )
    return 0
