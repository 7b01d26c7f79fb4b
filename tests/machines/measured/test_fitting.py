"""A machine is fitted to measured copies, and reads back; rows that cannot be are refused in a line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ringtree.machines.files import machine_json
from ringtree.machines.files.reading import find
from ringtree.machines.link_figures import data_Bps
from ringtree.machines.machine import DeviceKind, Link, LinkKind, Machine, NoteKind
from ringtree.machines.measured import copies_table
from ringtree.machines.measured.copies_table import CopyMethod, CopyTable, MeasuredCopy
from ringtree.machines.measured.fitting import fit
from tests.machines.measured.tables import DATE, HEALTHY, gpus, measured, state


def link(m: Machine, gpu: str, kind: LinkKind) -> Link:
    return next(k for k in m.links if m.devices[k.source].name == gpu and k.kind is kind)


@pytest.mark.parametrize("name", HEALTHY)
def test_a_gpus_link_has_the_rate_that_was_measured(name: str) -> None:
    m = fit(measured(name))
    for gpu in gpus(m):
        assert data_Bps(link(m, gpu, LinkKind.PCIE)) == pytest.approx(HEALTHY[name]["from"] * 1e9, rel=0.01)
        assert float(m.devices[m.device(gpu)].attributes["measured_memory_Bps"]) == pytest.approx(
            2 * HEALTHY[name]["local"] * 1e9, rel=0.05
        )


def test_only_the_halved_link_is_halved() -> None:
    table = measured("dgx-h100", lambda t, r: r / 2 if "gpu3" in (t.source, t.target) and t.source != t.target else r)
    table = replace(table, states={"gpu3": state(table.machine, "gpu3", width=8)})
    m = fit(table)
    rates = {gpu: data_Bps(link(m, gpu, LinkKind.PCIE)) / 1e9 for gpu in gpus(m)}
    assert rates.pop("gpu3") == pytest.approx(55.6 / 2, rel=0.01)
    assert all(rate == pytest.approx(55.6, rel=0.01) for rate in rates.values())
    nvlinks = {gpu: link(m, gpu, LinkKind.NVLINK).bandwidth_Bps for gpu in gpus(m)}
    assert nvlinks.pop("gpu3") == pytest.approx(max(nvlinks.values()) / 2, rel=0.01)
    traps = [note for note in m.notes if note.kind is NoteKind.TRAP and note.about == "gpu3"]
    assert len(traps) == 1 and "x8 of x16" in traps[0].text
    assert any(DATE in note.text for note in m.notes if note.kind is NoteKind.SOURCE)


def test_links_over_which_nothing_went_stay() -> None:
    table = measured("dgx-a100")
    m = fit(CopyTable(table.machine, (), DATE))
    assert m.links == table.machine.links
    kinds = {DeviceKind.NIC, DeviceKind.STORAGE}
    after = fit(table)
    for before, now in zip(table.machine.links, after.links, strict=True):
        if {table.machine.devices[n].kind for n in (before.source, before.target)} & kinds:
            assert now == before


def test_a_links_latency_is_that_beyond_a_copy_within_the_gpu() -> None:
    m = fit(measured("dgx-h100"))
    assert link(m, "gpu0", LinkKind.NVLINK).latency_s * 2 == pytest.approx(2e-6, rel=0.02)
    same = measured("dgx-h100")
    rows = tuple(replace(row, seconds=row.nbytes / 1e10 + 2e-6) for row in same.rows)
    nominal = fit(replace(same, rows=rows))
    assert link(nominal, "gpu0", LinkKind.NVLINK).latency_s == link(same.machine, "gpu0", LinkKind.NVLINK).latency_s


def test_gpus_that_the_driver_keeps_apart_have_no_p2p() -> None:
    table = measured("v100-pcie")
    names = gpus(table.machine)
    m = fit(replace(table, refused={(a, b): "no" for a in names for b in names if a != b}))
    assert all(m.devices[m.device(gpu)].attributes["p2p"] == "0" for gpu in names)


def test_tables_and_machines_read_back(tmp_path: Path) -> None:
    table = measured("dgx-a100")
    states = {"gpu0": state(table.machine, "gpu0", slowed=("its power limit",), peers={"0000:07:00.0": "allowed"})}
    table = replace(table, states=states, refused={("gpu0", "gpu1"): "no"}, driver="580.159")
    (tmp_path / "copies.json").write_text(copies_table.text(table))
    same = copies_table.read(tmp_path / "copies.json")
    assert (same.rows, same.states, same.refused) == (table.rows, table.states, table.refused)
    assert (same.date, same.driver, same.machine.links) == (DATE, "580.159", table.machine.links)
    machine_json.write(fit(table), tmp_path / "devices.json")
    assert find(tmp_path / "devices.json").links == fit(table).links


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "has no form, machine and rows"),
        ('{"form": 2, "machine": {}, "rows": []}', "form 2; expected 1"),
        ('{"form": 1, "machine": {"machine": "m"}, "rows": {}}', "expected a list"),
        ('{"form": 1, "machine": {"machine": "m"}, "rows": []}', "lacks 'date'"),
        ('{"form": 1, "machine": {"machine": "m"}, "rows": [1], "date": "d"}', "copies.json: "),
        ('{"form": 1, "machine": {"machine": "m"}, "rows": [{"source": "a", "target": "b", "method": "peer", '
         '"nbytes": 8, "seconds": 1}], "date": "d"}', "rows[0]: 'a' is no GPU or CPU of the machine m"),
        ('{"form": 1, "machine": {"machine": "m"}, "rows": [{"source": "a", "target": "b", "method": "fax", '
         '"nbytes": 8, "seconds": 1}], "date": "d"}', "'fax' is not a valid CopyMethod"),
    ],
)  # fmt: skip
def test_a_wrong_table_is_refused_in_a_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "copies.json").write_text(text)
    with pytest.raises(ValueError, match="expected") as error:
        copies_table.read(tmp_path / "copies.json")
    assert words in str(error.value) and "\n" not in str(error.value)


def test_a_row_needs_bytes_and_a_time() -> None:
    m = measured("dgx-a100").machine
    for nbytes, seconds in ((0, 1.0), (8, 0.0), (8, 1e-300), (1 << 70, 1.0), (8, float("nan"))):
        with pytest.raises(ValueError, match="expected a byte or more, and a time of a picosecond or more"):
            CopyTable(m, (MeasuredCopy("gpu0", "gpu1", CopyMethod.PEER, nbytes, seconds),), DATE)
