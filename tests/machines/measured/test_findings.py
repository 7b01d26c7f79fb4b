"""What is below nominal is named, with its cause; a healthy machine, and a nominal one, has no finding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.bench.device_copies import transfers
from ringtree.machines.catalogue import NAMES, machine
from ringtree.machines.measured.copies_table import CopyMethod, CopyTable, MeasuredCopy, Transfer
from ringtree.machines.measured.expected import Expected
from ringtree.machines.measured.findings import Finding, FindingKind, findings
from tests.machines.measured.tables import DATE, HEALTHY, gpus, measured, refusal, state

SMALL = [name for name in NAMES if 0 < len(machine(name).gpus) <= 16]


def found(table: CopyTable) -> dict[FindingKind, list[Finding]]:
    out: dict[FindingKind, list[Finding]] = {}
    for one in findings(table):
        out.setdefault(one.kind, []).append(one)
    return out


def nominal(name: str, part: float = 1.0) -> CopyTable:
    """A machine whose copies run at a part of what its figures promise, at 5 GB/s where they promise nothing."""
    m = machine(name)
    expected = Expected(CopyTable(m, (), DATE))
    rows = [
        MeasuredCopy(t.source, t.target, t.method, 1 << 28, (1 << 28) / part / (promised(expected, t) or 5e9), t.both)
        for t in transfers(m, gpus(m), refusal(m))
    ]
    return CopyTable(m, tuple(rows), DATE)


def promised(expected: Expected, transfer: Transfer) -> float | None:
    return expected.bandwidth_Bps(replace(transfer, both=False))


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("part", [1.0, 0.85])
def test_a_machine_at_its_nominal_figures_has_none(name: str, part: float) -> None:
    assert findings(nominal(name, part)) == ()


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_machine_has_none(name: str) -> None:
    table = measured(name)
    states = {gpu: state(table.machine, gpu) for gpu in gpus(table.machine)}
    assert findings(table) == () and findings(replace(table, states=states)) == ()


def halved(gpu: str, method: CopyMethod = CopyMethod.PINNED, part: float = 0.5):  # type: ignore[no-untyped-def]
    return lambda t, rate: rate * part if gpu in (t.source, t.target) and t.method is method else rate


@pytest.mark.parametrize("name", ["dgx-1-v100", "dgx-a100", "dgx-h100"])
def test_a_link_of_half_its_lanes_is_named_with_what_it_carries(name: str) -> None:
    table = measured(name, halved("gpu3"))
    (without,) = [each for kind, each in found(table).items() if kind is FindingKind.SLOW]
    assert all("gpu3" in one.about for one in without) and set(found(table)) == {FindingKind.SLOW}
    narrow = replace(
        table, states={"gpu3": state(table.machine, "gpu3", width=8), "gpu1": state(table.machine, "gpu1")}
    )
    (one,) = findings(narrow)
    assert (one.kind, one.about) == (FindingKind.WIDTH, "gpu3")
    assert "x8 of x16 lanes" in one.text and "GB/s from or to the host, of " in one.text
    assert any("riser" in remedy for remedy in one.remedies)


@given(st.sampled_from(sorted(HEALTHY)), st.integers(0, 7), st.floats(0.05, 0.55))
def test_any_gpu_with_a_slow_link_is_the_one_named(name: str, which: int, part: float) -> None:
    table = measured(name, halved(gpus(machine(name))[which % len(machine(name).gpus)], part=part))
    gpu = gpus(table.machine)[which % len(table.machine.gpus)]
    every = findings(table)
    assert every and all(gpu in one.about.split("-") for one in every)


@pytest.mark.parametrize(
    ("changed", "kind", "words", "remedy"),
    [
        ({"generation": 3}, FindingKind.GENERATION, "generation 3 of 5 while it copies", "AER"),
        ({"generation": 4, "most_generation": 4}, FindingKind.SLOT, "the GPU has PCIe 5, its slot", ""),
        ({"slowed": ("its power limit",)}, FindingKind.CLOCKS, "lowered while it copied, by its power limit", "nvidia"),
        ({"nvlinks_up": 17, "nvlinks_down": 1}, FindingKind.NVLINK, "17 of its 18 NVLinks are up", "nvlink -e"),
        ({"nvlinks_up": 0, "nvlinks_down": 18}, FindingKind.NVLINK, "none of its 18 NVLinks is up", "fabricmanager"),
        ({"mig": True}, FindingKind.MIG, "MIG is on", "-mig 0"),
    ],
)
def test_what_the_driver_reports(changed: Mapping[str, object], kind: FindingKind, words: str, remedy: str) -> None:
    table = measured("dgx-h100")
    if kind is FindingKind.SLOT:  # the machine has what runs
        table = measured("dgx-h100", lambda t, rate: rate / 2 if t.method is CopyMethod.PINNED else rate)
    states = {gpu: state(table.machine, gpu) for gpu in gpus(table.machine)}
    if kind is FindingKind.SLOT:
        states = {gpu: state(table.machine, gpu, **changed) for gpu in states}
    else:
        states["gpu5"] = state(table.machine, "gpu5", **changed)
    every = found(replace(table, states=states))
    assert set(every) == {kind}
    assert words in every[kind][0].text and any(remedy in r for r in (*every[kind][0].remedies, remedy))


def test_access_that_is_refused_is_named_by_reason() -> None:
    table = measured("v100-pcie")
    names = gpus(table.machine)
    reasons = {(a, b): "the driver refuses it" for a in names for b in names if a != b}
    (one,) = findings(replace(table, refused=reasons))
    assert one.kind is FindingKind.PEER and "gpu0-gpu1" in one.about and "the driver refuses it" in one.text
    assert len(one.about.split(", ")) <= 7


def test_a_slow_memory_a_slow_pair_and_half_duplex_are_named() -> None:
    table = measured("dgx-h100", halved("gpu2", CopyMethod.LOCAL))
    assert [(k, [o.about for o in v]) for k, v in found(table).items()] == [(FindingKind.MEMORY, ["gpu2"])]
    pair = measured("dgx-h100", lambda t, r: r * 0.75 if (t.source, t.target, t.both) == ("gpu1", "gpu6", False) else r)
    (one,) = findings(pair)
    assert (one.kind, one.about) == (FindingKind.SLOW, "gpu1-gpu6")
    duplex = measured("dgx-a100", lambda t, r: r * 0.6 if t.both and t.target == "gpu4" and "cpu" in t.source else r)
    (one,) = findings(duplex)
    assert one.kind is FindingKind.DUPLEX and one.about.endswith("-gpu4") and "together" in one.text
    late = measured("dgx-h200", lambda t, r: r * 0.7 if (t.target, t.method.value) == ("gpu4", "pageable") else r)
    (one,) = findings(late)
    assert one.kind is FindingKind.UNLIKE and one.about.endswith("-gpu4") and "usually at 12 GB/s" in one.text
