"""The predictions beside published measurements."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from ringtree.nccl.interval.compared import COMPARED

ROOT = Path(__file__).parents[2]
RCCL = "ag_ring_LL128_2_1_out_of_place", "mi300x8"


@pytest.fixture(scope="module")
def validate() -> ModuleType:
    """benchmarks/validate.py, which is no package."""
    spec = importlib.util.spec_from_file_location("validate", ROOT / "benchmarks" / "validate.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules["validate"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SIZES = (8, 1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 26, 1 << 28, 1 << 30, 1 << 33)


def test_the_predictions_for_the_published_systems(validate: ModuleType, golden: Callable[[str, str], None]) -> None:
    """A change of either model shows without the published tables. If it is meant, `make validate` prints how near the
    predictions come now."""
    lines = [f"{'bytes':>12}{'ours (us)':>12}{'NCCL (us)':>12}  NCCL's pick, bottleneck"]
    for system in (*validate.SYSTEMS, validate.System(*RCCL, collective="all_gather")):
        lines.append(f"{system.file}: {system.collective} on {system.cluster.name}")
        for nbytes in SIZES:
            ours, theirs = system.predicted(nbytes)
            times = "".join(f"{e.time_s * 1e6:>12.4g}" for e in (ours, theirs))
            lines.append(f"{nbytes:>12}{times}  {ours.algorithm}/{ours.protocol}, {ours.bottleneck}")
    golden("price/predictions.txt", "\n".join(lines))


def test_the_goals_are_met_and_the_record_is_of_this_code(validate: ModuleType, data_folder: Path) -> None:
    tables = data_folder / "nccl_tests"
    by_system = {s.file: validate.points(s, tables) for s in validate.SYSTEMS}
    overall = validate.figures(p for some in by_system.values() for p in some)
    for name, goal in validate.GOALS.items():
        assert overall[name] <= goal, f"{name}: {overall[name]}"
    kept = json.loads((ROOT / "benchmarks" / "validated.json").read_text(encoding="utf-8"))
    assert kept["all"] == pytest.approx(overall, abs=1e-3), (
        "python -m benchmarks.validate --json benchmarks/validated.json"
    )
    for name, some in by_system.items():
        expected = {k: v for k, v in kept["systems"][name].items() if k != "on"}
        assert expected == pytest.approx(validate.figures(some), abs=1e-3), name


COVERED = 0.8
SHARP = 1.85
"""The least share of points in their intervals, and the most of high over low, in the median."""


def test_points_are_in_their_intervals_and_not_by_width(validate: ModuleType, data_folder: Path) -> None:
    """No system sets its own width; the factors that the code has are those of this model."""
    from benchmarks import intervals

    by_system = {s.file: validate.points(s, data_folder / "nccl_tests") for s in validate.SYSTEMS}
    found = intervals.coverage(by_system)["all of them"]
    assert found.inside >= COVERED * found.points, f"{found.inside} of {found.points}"
    assert found.width <= SHARP and found.width < found.constant_width
    kept = {c.system: c for c in COMPARED}
    for found in intervals.record(by_system):
        assert kept[found.system].of == found.of
        assert kept[found.system].factor == pytest.approx(found.factor, abs=0.02), (
            "python -m benchmarks.intervals --record"
        )


def test_every_healthy_table_is_judged(validate: ModuleType, data_folder: Path) -> None:
    files = {p.stem for p in (data_folder / "nccl_tests").glob("*.csv")}
    misconfigured = {"cscs_gh200_2n_allreduce_noplugin", "gdr116_v100_4gpu_pcie"}
    assert {s.file for s in validate.SYSTEMS} == files - misconfigured


def test_rccl_on_mi300x_is_within_a_twentieth(validate: ModuleType, data_folder: Path) -> None:
    """RCCL on eight MI300X, all_gather of 128 B to 4 GiB, with nothing of ours but xGMI's and RCCL's own figures."""
    system = validate.System(*RCCL, collective="all_gather")
    lines = (data_folder / "measured" / "mi300x_allgather" / f"{system.file}.csv").read_text().splitlines()[1:]
    errors = []
    for line in lines:
        nbytes, time_us = int(line.split(",")[0]), float(line.split(",")[5])
        if nbytes:
            errors.append(abs(system.predicted(nbytes)[0].time_s * 1e6 / time_us - 1))
    assert len(errors) == 26 and sorted(errors)[len(errors) // 2] <= 0.05
