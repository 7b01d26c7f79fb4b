"""The comparison: which tests pass on Gloo, which here."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from tests.torch_backend.suite.faces import FACES, GLOO, IN_GLOOS_PLACE, RINGTREE
from tests.torch_backend.suite.outcomes import FAIL, PASS, SKIP, Outcome

Rows = dict[str, dict[str, Outcome]]
"""Of every test, by name, its outcome with each face."""

HEAD = """# PyTorch's own tests

<!-- written by make test-torch-suite -->

PyTorch {version} carries its tests of torch.distributed in its wheel, in
`torch.testing._internal.distributed.distributed_test`. Here they are on Gloo and on ringtree:

"""
HOW = """
*In Gloo's place* runs all tests that accept Gloo; under ringtree's own name fewer of the tests accept the backend.
`make test-torch-suite` fails where a test passes on Gloo and not on ringtree. A test has 2 ranks, or as many as it asks
for. On ringtree a test that makes a group of Gloo's fails, as does one that hangs, or whose ranks do not all end well.
Tests that begin with On are short ones of ours on PyTorch's harnesses for DTensor, FSDP and the like.

## Tests that ran

"""
SKIPPED = """
## Tests that were skipped everywhere, by the reason on Gloo

"""


def worse(rows: Rows) -> list[str]:
    """Tests that pass on Gloo, or were not run there, and fail here, or are skipped both times; a line each."""
    found = []
    for name, row in sorted(rows.items()):
        here = {face: row[face] for face in FACES[1:] if face in row}
        if GLOO in row and row[GLOO].status != PASS:
            continue
        lost = GLOO in row and PASS not in {outcome.status for outcome in here.values()}
        found += [
            f"{name} on {face}, {outcome.ranks} ranks: {outcome.status}: {brief(outcome.reason)}"
            for face, outcome in here.items()
            if outcome.status == FAIL or lost
        ]
    return found


def unseen(rows: Rows) -> list[str]:
    """Tests that passed on Gloo without a thread of its being seen: where that is so, none would be seen here."""
    ran = [row[GLOO] for row in rows.values() if GLOO in row and row[GLOO].status == PASS]
    return [f"{outcome.name} on gloo: no thread of Gloo's was seen" for outcome in ran if not outcome.gloo]


def summary(rows: Rows) -> str:
    """A table of how many there are of each outcome."""
    lines = ["| | pass | fail | skip |", "| --- | ---: | ---: | ---: |"]
    for face in FACES:
        count = Counter(row[face].status for row in rows.values() if face in row)
        if count:
            lines.append(f"| {TITLES[face]} | {count[PASS]} | {count[FAIL]} | {count[SKIP]} |")
    return "\n".join(lines)


TITLES = {GLOO: "Gloo", IN_GLOOS_PLACE: "ringtree in Gloo's place", RINGTREE: "ringtree"}


def markdown(rows: Rows, version: str) -> str:
    """The page: how many passed, each test that ran somewhere, and the others by the reason that Gloo gives."""
    head = " | ".join(TITLES[face] for face in FACES)
    lines = [f"| test | ranks | {head} |", "| --- | ---: | --- | --- | --- |"]
    skipped: dict[str, list[str]] = {}
    for name, row in sorted(rows.items()):
        if all(outcome.status == SKIP for outcome in row.values()):
            skipped.setdefault(brief(row[GLOO].reason).replace("|", "\\|"), []).append(name)
            continue
        cells = " | ".join(_cell(row, face) for face in FACES)
        lines.append(f"| {name} | {max(outcome.ranks for outcome in row.values())} | {cells} |")
    reasons = sorted(skipped.items(), key=lambda item: -len(item[1]))
    by_reason = [f"| {reason} | {len(names)} | {', '.join(names)} |" for reason, names in reasons]
    return (
        HEAD.format(version=version)
        + summary(rows)
        + "\n"
        + HOW
        + "\n".join(lines)
        + "\n"
        + SKIPPED
        + "\n".join(["| reason | tests | names |", "| --- | ---: | --- |", *by_reason])
        + "\n"
    )


def _cell(row: dict[str, Outcome], face: str) -> str:
    outcome = row[face]
    if outcome.status == PASS:
        return PASS
    same = face != GLOO and outcome[1:3] == row[GLOO][1:3]
    return f"{outcome.status}: {'the same' if same else brief(outcome.reason)}".replace("|", "\\|")


def brief(reason: str) -> str:
    """A skip's reason; of a failure the first exception that a rank reported or wrote."""
    story = reason.partition("and exception:\n")[2] or reason
    lines = [line.strip() for line in story.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line) and "exit code" not in line]
    return (errors or lines or [""])[0][:200]


def as_json(rows: Rows) -> list[dict[str, Any]]:
    """The record: a test each, with status, reason in brief and seconds on each face."""
    return [
        {
            "test": name,
            "ranks": max(outcome.ranks for outcome in row.values()),
            **{face: {"status": o.status, "reason": brief(o.reason), "took_s": o.took_s} for face, o in row.items()},
        }
        for name, row in sorted(rows.items())
    ]
