"""The table of docs/mpi4py_suite.md: a row for each file of the suite."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

FILES = [
    f"test_{name}"
    for name in (
        "cco_buf", "cco_obj", "cco_vec", "cco_nb_buf", "cco_nb_vec", "cco_pr_buf", "cco_pr_vec", "cco_ngh_buf",
        "cco_ngh_obj", "cco_pr_ngh_buf", "p2p_buf", "p2p_obj", "p2p_buf_matched", "p2p_obj_matched", "p2p_buf_part",
        "comm_topo", "datatype", "pack", "info", "comm_inter", "cco_buf_inter", "cco_obj_inter", "cco_vec_inter",
        "win", "rma", "rma_nb",
    )
]  # fmt: skip

HEAD = """# mpi4py's own tests

<!-- written by make test-mpi4py-suite -->

The files of {version} that test messages, collectives, topologies, datatypes, intercommunicators and windows, on
{ranks} ranks of `ringtree.mpi`, which `ringtree.mpi.replace()` puts in the place of `mpi4py.MPI`. A test passes where
it passes on every rank. The suite's arrays that pretend to be a GPU's are left out: `ringtree.mpi` takes memory of the
host. Before derived datatypes, `Info`, intercommunicators and windows were built, 612 tests passed, of the 737 of the
files that were run then. The last column has the most frequent reasons of the tests that fail; the list below has all.

| file | tests | pass | skipped | fail | most frequent reasons |
| --- | ---: | ---: | ---: | ---: | --- |
"""


def row(module: str, outcomes: Sequence[Any]) -> str:
    """One file's line."""
    of = Counter(outcome.status for outcome in outcomes)
    why = Counter(_brief(outcome.reason) for outcome in outcomes if outcome.status == "fail").most_common(3)
    reasons = "; ".join(f"{count} × {reason}" for reason, count in why)
    return f"| {module} | {len(outcomes)} | {of['pass']} | {of['skip']} | {of['fail']} | {reasons} |"


def markdown(rows: Mapping[str, Sequence[Any]], version: str, ranks: int) -> str:
    """The page."""
    every = [outcome for outcomes in rows.values() for outcome in outcomes]
    lines = [row(module, outcomes) for module, outcomes in rows.items()]
    table = "\n".join([*lines, row("all", every)])
    return f"{HEAD.format(version=version, ranks=ranks)}{table}\n{_failures(rows)}"


def _failures(rows: Mapping[str, Sequence[Any]]) -> str:
    """Every test that fails, by its reason."""
    by_reason: dict[str, list[str]] = {}
    for module, outcomes in rows.items():
        for outcome in outcomes:
            if outcome.status == "fail":
                name = outcome.name.removeprefix(f"{module}.")
                by_reason.setdefault(_brief(outcome.reason), []).append(f"{module}: {name}")
    if not by_reason:
        return ""
    lines = [f"| {reason} | {'; '.join(names)} |" for reason, names in by_reason.items()]
    return "\n## Tests that fail\n\n| reason | tests |\n| --- | --- |\n" + "\n".join(lines) + "\n"


def _brief(reason: str) -> str:
    text = re.sub(r"\bat 0x\w+", "", reason.replace("|", "/"))
    return text if len(text) <= 90 else text[:87] + "..."
