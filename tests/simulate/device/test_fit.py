"""The constants that times were simulated with are found in them again; measured tables are met."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ringtree.algorithms import build
from ringtree.cli.arguments.topology import topology
from ringtree.formats import load
from ringtree.ir.lower import lower
from ringtree.ir.program import Instruction, Kind, Operand, Program, Space
from ringtree.nccl.files.nccl_tests import read
from ringtree.simulate import StuckError
from ringtree.simulate.device import DeviceConstants, seconds
from ringtree.simulate.device.channels import in_channels
from ringtree.simulate.device.fit import MeasuredTable, fit, log_errors, stages
from ringtree.topology import direct
from tests.conftest import EXAMPLES
from tests.simulate.device.msccl_ring import written

PLACE = direct(2, latency_s=0, bandwidth_Bps=7e9)
SIZES = tuple(2 << k for k in range(8, 22, 2))
MI300X = {
    "simple": DeviceConstants(14e-6, 1.4e-6, 21.5e9, 0.89, piece_nbytes=2 << 20, slices=2, slots=8),
    "ll": DeviceConstants(1.5e-6, 0.93e-6, 4.26e9, 0.9, piece_nbytes=16 << 10, slices=4, slots=1),
    "LL128": DeviceConstants(207e-6, 0.74e-6, 5.01e9, 0.9, piece_nbytes=64 << 10, slices=8, slots=1),
}
"""The constants that fits to 1, 2, 4 and 8 channels find, rounded (docs/simulate.md)."""


@pytest.fixture(scope="module")
def rings(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Program, ...]]:
    """Rings over 2 ranks, of one, two and four thread blocks a rank."""
    folder = tmp_path_factory.mktemp("rings")
    return [load(written(folder, 2, *cut)).programs for cut in ((1, 1), (1, 2), (2, 2))]


def table(programs: tuple[Program, ...], constants: DeviceConstants, sizes: tuple[int, ...] = SIZES) -> MeasuredTable:
    times_s = tuple(seconds(programs, PLACE, n, constants) for n in sizes)
    return MeasuredTable(f"{len(programs[0].threads)} thread blocks", programs, sizes, times_s)


def off(errors: NDArray[np.float64]) -> float:
    return float(np.median(np.abs(np.expm1(errors))))


@settings(max_examples=max(1, EXAMPLES // 25), phases=[Phase.generate], derandomize=True)
@given(
    launch_s=st.floats(1e-5, 1e-4),
    block_Bps=st.floats(5e9, 2e10),
    share=st.floats(0.7, 0.95),
    piece=st.sampled_from([1 << 16, 1 << 18]),
    slices=st.sampled_from([1, 2, 4]),
)
def test_what_times_were_made_with_is_found_in_them(
    rings: list[tuple[Program, ...]], launch_s: float, block_Bps: float, share: float, piece: int, slices: int
) -> None:
    """A link that thread blocks fill, and pieces of which many are measured, so that all constants show. Times of
    another program, which was not fitted, follow."""
    made = DeviceConstants(launch_s, launch_s / 20, block_Bps, share, piece_nbytes=piece, slices=slices)
    reports: list[str] = []
    tables = [table(rings[0], made), table(rings[2], made)]
    found = fit(tables, PLACE, reports.append)
    assert len(reports) == stages(tables)
    for t in found.tables:
        assert off(np.log1p(t.fitted)) < 0.01 and len(t.without_size) == len(SIZES)
    assert off(log_errors(table(rings[1], made), PLACE, found.constants)) < 0.03
    assert found.constants.launch_s == pytest.approx(launch_s, rel=0.1)
    assert found.constants.block_Bps == pytest.approx(block_Bps, rel=0.1)
    assert found.constants.link_share == pytest.approx(share, rel=0.1)


def test_without_times_there_is_nothing_to_fit() -> None:
    with pytest.raises(ValueError, match="no measured times to fit constants to"):
        fit([], PLACE)


def test_as_many_slots_are_fitted_as_rings_need() -> None:
    """Each rank sends twice before it receives, as other programs than the measured one may: one slot is too few."""
    programs = []
    for rank in range(2):
        code: list[Instruction] = []
        for chunk in range(2):
            o = Operand(Space.OUTPUT, chunk, chunk)
            code.append(Instruction(Kind.COPY, (Operand(Space.SLOT, chunk, chunk),), (o,)))
            code.append(Instruction(Kind.SIGNAL, peer=1 - rank, register=chunk))
        for chunk in range(2):
            o, message = Operand(Space.OUTPUT, chunk, chunk), Operand(Space.MESSAGE, chunk, chunk)
            code.append(Instruction(Kind.WAIT, peer=1 - rank, register=chunk))
            code.append(Instruction(Kind.COPY, (o,), (message,)))
            code.append(Instruction(Kind.RELEASE, peer=1 - rank))
        programs.append(Program("mine", "all_reduce", rank, 2, 2, (tuple(code),)))
    made, sizes = DeviceConstants(1e-5, 1e-6, 1e9), (1 << 10, 1 << 14, 1 << 18)
    with pytest.raises(StuckError):
        seconds(programs, PLACE, 1 << 10, replace(made, slots=1))
    times_s = tuple(seconds(programs, PLACE, n, made) for n in sizes)
    reports: list[str] = []
    found = fit([MeasuredTable("mine", programs, sizes, times_s)], PLACE, reports.append)
    assert found.constants.slots > 1 and not [text for text in reports if "deadlock" in text]
    assert found.constants.block_Bps == pytest.approx(1e9, rel=0.01)


def test_the_rate_of_reductions_shows_in_times_of_a_reduction() -> None:
    programs = in_channels(lower(build("ring", "all_reduce", 2)), 2)
    made = DeviceConstants(1e-5, 1e-6, 2e9, reduce_Bps=3e9)
    found = fit([table(programs, made, SIZES[::2])], PLACE)
    assert off(np.log1p(found.tables[0].fitted)) < 0.01 and "reduce_Bps" in found.errors
    slow = seconds(programs, PLACE, 1 << 24, found.constants)
    plain = seconds(programs, PLACE, 1 << 24, replace(found.constants, reduce_Bps=inf))
    assert slow > 1.2 * plain


def measured(folder: Path, data: Path, protocol: str, channels: int, instances: int) -> MeasuredTable:
    """The in-place times of a ring's program on 8 MI300X."""
    name = f"ag_ring_{protocol}_{channels}_{instances}_in_place.csv"
    log = read(data / "measured" / "mi300x_allgather" / name)
    programs = load(written(folder, 8, channels, instances, protocol)).programs
    return MeasuredTable(name, programs, tuple(r.nbytes for r in log.rows), tuple(r.time_s for r in log.rows))


@pytest.mark.parametrize(("protocol", "channels", "instances", "most"), [
    ("simple", 8, 1, 0.1), ("ll", 8, 1, 0.1), ("LL128", 8, 1, 0.1), ("LL128", 8, 2, 0.2),
    ("simple", 1, 1, 0.1), ("simple", 2, 2, 0.15), ("simple", 4, 1, 0.1), ("ll", 1, 1, 0.1), ("ll", 4, 2, 0.1),
    ("LL128", 4, 1, 0.1),
])  # fmt: skip
def test_one_set_of_constants_foretells_every_number_of_channels(
    tmp_path: Path, data_folder: Path, protocol: str, channels: int, instances: int, most: float
) -> None:
    """8 MI300X from 128 bytes to 4 GiB; with links alone, times are 5 to 40 times too short."""
    t = measured(tmp_path, data_folder, protocol, channels, instances)
    assert len(t.nbytes) == 26
    assert off(log_errors(t, topology("mi300x8", 8), MI300X[protocol])) < most


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["simple", "ll", "LL128"])
def test_eight_channels_are_fitted_within_a_fifth(tmp_path: Path, data_folder: Path, protocol: str) -> None:
    found = fit([measured(tmp_path, data_folder, protocol, 8, 1)], topology("mi300x8", 8))
    assert np.median(np.abs(found.tables[0].fitted)) < 0.1 and np.median(np.abs(found.tables[0].without_size)) < 0.2
