"""Python gives the pages data of the types that their scripts declare: tsc checks real data against data.d.ts."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ringtree import pages
from ringtree.algorithms import build
from ringtree.machines.catalogue import machine
from ringtree.machines.clusters import Cluster
from ringtree.pages.machine_page import machine_data
from ringtree.pages.report_page import report_data
from ringtree.pages.schedule_page import schedule_data
from ringtree.pages.trace_page import trace_data
from ringtree.topology.fabrics import FABRICS
from ringtree.topology.text import parse
from ringtree.training import ParallelLayout
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.measure.measured import TrainingRecord
from tests.draw.machines import pair
from tests.draw.test_report import record as bench_record
from tests.pages.browser.driver import INSTALLED, ROOT
from tests.pages.test_doctor_browser import result as doctor_result
from tests.pages.test_machine_browser import RING, TREE
from tests.pages.test_report_browser import rows
from tests.pages.test_train_browser import TRACE
from tests.pages.test_train_browser import record as train_record
from tests.pages.traces import ring

BENCHMARKS = ROOT / "benchmarks"
TSC = INSTALLED / "node_modules" / ".bin" / "tsc"


def given() -> Iterator[tuple[str, Any]]:
    """(view, its data) as the JSON that pages have."""
    yield "schedule", schedule_data(build("double_tree", "all_reduce", 6))
    yield "schedule", schedule_data(build("ring", "all_gather", 4), parse("cluster:hosts=2", 4))
    yield "schedule", schedule_data(build("chain", "broadcast", 3))
    yield "trace", trace_data([ring(3, 6), TRACE])
    kept = (json.loads(path.read_text(encoding="utf-8")) for path in BENCHMARKS.glob("all_reduce_*.json"))
    yield "report", report_data({"rows": bench_record(*rows()), **{str(n): file for n, file in enumerate(kept)}})
    run = TrainingRecord(
        TrainingPlan(ParallelLayout(tp=2)),
        1,
        [5.0, float("inf")],
        [0.1] * 2,
        [8] * 2,
        TRACE,
        [],
        0.2,
        [0.1],
        [],
        {},
        {},
        None,
    )
    yield "train", {**train_record(), "picture": ""}
    yield "train", {**run.record(), "picture": "<svg/>"}
    yield "machine", machine_data(Cluster(pair()), (RING, TREE))
    yield "machine", machine_data(Cluster(machine("dgx-a100"), 2, FABRICS["roce"]))
    yield "doctor", doctor_result()
    yield "doctor", doctor_result(1, findings=[], links=None)


def type_errors(folder: Path, *views: tuple[str, Any]) -> list[str]:
    """tsc's errors for the data, one a line."""
    if not TSC.is_file():
        lacking = "no typescript here: make browser"
        if os.environ.get("RINGTREE_BROWSER_REQUIRED") == "1":
            pytest.fail(f"RINGTREE_BROWSER_REQUIRED=1, but {lacking}")
        pytest.skip(lacking)
    lines = [f"PageData[{json.dumps(view)}] = {json.dumps(data)};" for view, data in views]
    (folder / "given.ts").write_text("\n".join(f"const data{n}: {line}" for n, line in enumerate(lines)))
    config = {
        "extends": str(pages.FOLDER / "tsconfig.json"),
        "compilerOptions": {"types": [], "lib": ["es5"], "noUnusedLocals": False},
        "files": [str(pages.FOLDER / "data.d.ts"), "given.ts"],
        "include": [],
    }
    (folder / "tsconfig.json").write_text(json.dumps(config))
    found = subprocess.run([str(TSC), "-p", str(folder)], capture_output=True, text=True).stdout
    return [line for line in found.splitlines() if "error TS" in line]


def test_python_gives_the_types_of_the_scripts(tmp_path: Path) -> None:
    assert type_errors(tmp_path, *given()) == []
    assert {view for view, _ in given()} == set(pages.VIEWS)


def test_a_field_more_or_less_or_of_another_type_is_noticed(tmp_path: Path) -> None:
    data = schedule_data(build("ring", "all_reduce", 2))
    less = {key: value for key, value in data.items() if key != "repeats"}
    pages = [("schedule", other) for other in ({**data, "colour": 1}, less, {**data, "ranks": "2"})]
    found = type_errors(tmp_path, *pages)
    assert len(found) == 3
    for line, word in zip(found, ("colour", "repeats", "string"), strict=True):
        assert word in line
