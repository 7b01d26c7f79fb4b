"""The list of the algorithms: `ringtree algorithms`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module

from ringtree.algorithms import REGISTRY, Algorithm
from ringtree.algorithms.own import installed
from ringtree.cli.terminal import console
from ringtree.draw.text.tables import markdown
from ringtree.ir.collective import collective

PAGE = "ringtree.cli.algorithms_page"
"""The module of --page, loaded with what proves, which the list needs not."""
SHARED_TERMS = (
    "n ranks, S bytes in the whole vector; lg: logarithm to base 2, rounded up; p: the largest power of two up to n"
)


def run(args: argparse.Namespace) -> int:
    """Prints the table of algorithms, or the pages for --markdown and --page. Returns the exit code."""
    if args.collective:
        collective(args.collective)
    algorithms = [a for a in REGISTRY.values() if args.collective in (None, *a.serves)]
    if args.page:
        print(import_module(PAGE).page(algorithms, SHARED_TERMS))
    elif args.markdown:
        print(_readme_table(algorithms))
    else:
        _list(algorithms, args.collective)
    return 0


def _readme_table(algorithms: Sequence[Algorithm]) -> str:
    rows = [(f"[{a.name}](docs/algorithms.md#{a.name})", ", ".join(a.serves), a.source) for a in algorithms]
    return markdown(("algorithm", "serves", "source"), rows)


def _list(algorithms: Sequence[Algorithm], asked: str | None) -> None:
    """An algorithm and its source, and below it a line a collective; then the names that installed packages add."""
    from rich.markup import escape

    screen = console()
    row = "    {:<15} {:<{width}} {}".format
    shown = [(a, [(c, cost) for c, cost in a.costs.items() if asked in (None, c)]) for a in algorithms]
    width = max(len(str(cost.rounds)) for _, costs in shown for _, cost in costs) + 1
    screen.print(f"[bold]{'algorithm':<19}[/] [dim]source[/]\n{row('collective', 'rounds', 'bytes', width=width)}\n")
    for a, costs in shown:
        screen.print(f"[bold]{a.name:<19}[/] [dim]{escape(a.source)}", highlight=False, soft_wrap=True)
        for c, cost in costs:
            line = row(c, str(cost.rounds), str(cost.sent), width=width)
            screen.print(line, markup=False, highlight=False, soft_wrap=True)
        if a.terms:
            screen.print(f"    [dim]{escape(a.terms)}", highlight=False, soft_wrap=True)
    for name, package in installed().items():
        taken = "; ringtree has one of that name, which is taken" if name in REGISTRY else ""
        screen.print(f"[bold]{name:<19}[/] [dim]of package {escape(package.package)}{taken}", soft_wrap=True)
    screen.print(f"\n[dim]Each for any number of ranks. {SHARED_TERMS}; bytes: what the rank sends that sends most")
