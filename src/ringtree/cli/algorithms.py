"""List the algorithms: what each serves, its rounds and bytes for n ranks and S bytes, and who published it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ringtree.algorithms import Algorithm

SHARED_TERMS = (
    "n ranks, S bytes in the whole vector; lg: logarithm to base 2, rounded up; p: the largest power of two up to n"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--collective", metavar="C", help="only those that serve this collective")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--markdown", action="store_true", help="as the README's table")
    shape.add_argument("--page", action="store_true", help="as docs/algorithms.md, with a picture each")


def run(args: argparse.Namespace) -> int:
    from ringtree.algorithms import REGISTRY
    from ringtree.ir.collective import collective

    if args.collective:
        collective(args.collective)
    algorithms = [a for a in REGISTRY.values() if args.collective in (None, *a.serves)]
    if args.page:
        from ringtree.cli.algorithms_page import page

        print(page(algorithms, SHARED_TERMS))
    elif args.markdown:
        print(_readme_table(algorithms))
    else:
        _list(algorithms, args.collective)
    return 0


def _readme_table(algorithms: Sequence[Algorithm]) -> str:
    from ringtree.draw.tables import markdown

    rows = [(f"[{a.name}](docs/algorithms.md#{a.name})", ", ".join(a.serves), a.source) for a in algorithms]
    return markdown(("algorithm", "serves", "source"), rows)


def _list(algorithms: Sequence[Algorithm], asked: str | None) -> None:
    from rich.table import Table

    from ringtree.cli.terminal import console

    head = ("algorithm", "collective", "rounds", "bytes sent by the busiest rank", "source")
    table = Table(*head, box=None, pad_edge=False, header_style="bold")
    for a in algorithms:
        costs = [(c, cost) for c, cost in a.costs.items() if asked in (None, c)]
        for number, (c, cost) in enumerate(costs):
            first = number == 0  # an algorithm's name and source are said once
            table.add_row(a.name if first else "", c, cost.rounds, cost.sent, a.source if first else "")
    legend = "; ".join([SHARED_TERMS, *(f"{a.name}: {a.terms}" for a in algorithms if a.terms)])
    screen = console()
    screen.print(table)
    screen.print(f"[dim]{legend}")
