"""The constants that times were simulated with are found in them again; measured tables are met."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringtree.formats import load
from ringtree.ir.program import Program
from ringtree.simulate.device import DeviceConstants, seconds
from ringtree.simulate.device.fit import MeasuredTable, fit, stages
from ringtree.topology import direct
from tests.simulate.device.msccl_ring import written

PLACE = direct(3, latency_s=0, bandwidth_Bps=40e9)
SIZES = tuple(3 << k for k in range(8, 25, 2))


@pytest.fixture(scope="module")
def rings(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[Program, ...]]:
    """Rings over 3 ranks, by channels."""
    folder = tmp_path_factory.mktemp("rings")
    return {channels: load(written(folder, 3, channels)).programs for channels in (1, 3)}


def table(programs: tuple[Program, ...], constants: DeviceConstants, noise: float = 0.0) -> MeasuredTable:
    times = np.array([seconds(programs, PLACE, n, constants) for n in SIZES])
    times *= np.exp(np.random.default_rng(0).normal(0, noise, len(times)))
    return MeasuredTable(f"{len(programs[0].threads)}", programs, SIZES, tuple(times.tolist()))


@settings(max_examples=3)
@given(
    launch_s=st.floats(1e-5, 1e-4),
    block_Bps=st.floats(5e9, 3e10),
    share=st.floats(0.1, 0.2),
    piece=st.sampled_from([1 << 16, 1 << 18]),
    slices=st.sampled_from([1, 2, 4]),
)
def test_what_times_were_made_with_is_found_in_them(
    rings: dict[int, tuple[Program, ...]], launch_s: float, block_Bps: float, share: float, piece: int, slices: int
) -> None:
    """A link that is slower than a thread block, and pieces of which many are measured: all constants show."""
    made = DeviceConstants(launch_s, launch_s / 20, block_Bps, share, piece_nbytes=piece, slices=slices)
    tables = [table(rings[channels], made) for channels in (1, 3)]
    reports: list[str] = []
    found = fit(tables, PLACE, reports.append)
    assert len(reports) == stages(tables)
    for t in found.tables:
        assert np.median(np.abs(t.fitted)) < 0.01
    assert found.constants.launch_s == pytest.approx(launch_s, rel=0.1)
    assert found.constants.piece_nbytes == piece and found.constants.slices == slices
