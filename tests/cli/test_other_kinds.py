"""A file of another kind is named as what it is, with what was expected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ringtree.topology import shapes, text
from tests.cli.conftest import Ringtree

WRITTEN = {
    "sweep all_reduce --topology switch -n 4 --bytes 8 --json FILE": "a bench record",
    "train --plan --json FILE": "a plan of training",
    "plan all_reduce --topology dgx-h100 --bytes 1M --json FILE": "a plan of a collective",
    "plan all_reduce -n 2 --bytes 1M --json FILE": "a plan of a collective",
    "simulate ring -n 4 --topology direct --bytes 8 --trace FILE": "a trace",
    "simulate ring -n 4 --topology direct --bytes 8 --goal FILE": "a GOAL schedule",
    "export ring FILE -n 4 --format text": "a schedule as text",
    "export ring FILE -n 4 --format msccl": "a schedule as MSCCL XML",
    "export ring FILE -n 4 --format mscclpp": "a schedule for MSCCL++",
    "ps --json FILE": "groups of this machine",
}
"""Commands, and what the file is that they write."""
GIVEN = {
    "a record of training": {"machine": {}, "plan": {}, "steps": []},
    "a record of random faults": {"machine": {}, "seed": 1, "cases": 9, "by_fault": []},
    "measured copies": {"form": 1, "date": "", "states": {}, "machine": {}, "rows": []},
    "checks of hosts": {"form": 1, "problems": 0, "notes": 0, "hosts": [], "findings": []},
}
"""The names of files that take long to be written, by what they are."""
READERS = {
    "tune --from FILE --output out": ("expected what `ringtree tune --device cuda --json` writes", "measured copies"),
    "topo show FILE": ("expected a machine", "a machine"),
    "show FILE": ("expected an MSCCL++ execution plan", "a trace", "a schedule", "a GOAL schedule"),
    "report FILE": ("`ringtree bench --json` writes", "a bench record"),
}
"""Commands that read a file, what they say that they expect, and the kinds that they take."""


def test_files_of_other_kinds_are_named(ringtree: Ringtree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = {}
    for number, (words, kind) in enumerate(WRITTEN.items()):
        assert not ringtree(*words.replace("FILE", f"w{number}").split()).err
        files[f"w{number}"] = kind
    for number, (kind, value) in enumerate(GIVEN.items()):
        Path(f"g{number}").write_text(json.dumps(value))
        files[f"g{number}"] = kind
    text.save(shapes.direct(4), "t")
    files["t"] = "a topology of ranks and links"
    for reader, (expected, *own) in READERS.items():
        for file, kind in files.items():
            got = ringtree(*reader.replace("FILE", file).split())
            if not kind.startswith(tuple(own)):
                assert got.code == 1 and not got.out and got.err.count("\n") == 1, got
                assert f"{file}: {kind}" in got.err and expected in got.err, got.err
    assert not Path("out").exists()
