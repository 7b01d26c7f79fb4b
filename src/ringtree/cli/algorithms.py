"""List the algorithms: what each serves, its rounds and bytes for n ranks and S bytes, and who published it."""

from __future__ import annotations

import argparse

SHARED_TERMS = (
    "n ranks, S bytes in the whole vector; lg: logarithm to base 2, rounded up; p: the largest power of two up to n"
)


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
    served = {
        name: [(c, cost) for c, cost in algorithm.costs.items() if args.collective in (None, c)]
        for name, algorithm in REGISTRY.items()
    }
    own = [(name, REGISTRY[name].terms) for name, costs in served.items() if costs and REGISTRY[name].terms]
    legend = "; ".join([SHARED_TERMS, *(f"{name}: {terms}" for name, terms in own)])
    if args.markdown:
        rows = [
            (name, "<br>".join(f"{c}: `{cost.rounds}`; `{cost.sent}`" for c, cost in costs), REGISTRY[name].source)
            for name, costs in served.items()
            if costs
        ]
        print(markdown(("algorithm", "serves: rounds; bytes sent by the busiest rank", "source"), rows))
        print(f"\n{legend}.")
        return 0
    from rich.table import Table

    head = ("algorithm", "collective", "rounds", "bytes sent by the busiest rank", "source")
    table = Table(*head, box=None, pad_edge=False, header_style="bold")
    for name, costs in served.items():
        for number, (c, cost) in enumerate(costs):
            first = number == 0  # an algorithm's name and source are said once
            table.add_row(name if first else "", c, cost.rounds, cost.sent, REGISTRY[name].source if first else "")
    screen = console()
    screen.print(table)
    screen.print(f"[dim]{legend}")
    return 0
