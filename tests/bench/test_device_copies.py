"""Which copies are timed, and, where a GPU is, that they are: on this machine's own devices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ringtree.bench.cuda_copies import driver, with_gpu
from ringtree.bench.device_copies import SIZES, sizes, transfers
from ringtree.cli import main
from ringtree.machines.catalogue import machine
from ringtree.machines.detect import detect
from ringtree.machines.files.reading import find
from ringtree.machines.measured import copies_table
from ringtree.machines.measured.copies_table import CopyMethod, Transfer
from ringtree.machines.paths import Paths


def test_every_pair_is_timed_with_and_without_access() -> None:
    m = machine("v100-pcie")
    gpus = [m.devices[n].name for n in m.gpus]
    found = list(transfers(m, gpus, lambda a, b: "no" if {a, b} == {"gpu0", "gpu1"} else ""))
    assert len(set(found)) == len(found)
    many = len(gpus)
    by = {method: [t for t in found if t.method is method and not t.both] for method in CopyMethod}
    assert len(by[CopyMethod.STAGED]) == many * (many - 1) == len(by[CopyMethod.PEER]) + 2
    assert len(by[CopyMethod.LOCAL]) == many and len(by[CopyMethod.PINNED]) == len(by[CopyMethod.PAGEABLE]) == 2 * many
    assert Transfer("gpu0", "gpu1", CopyMethod.PEER) not in found
    assert Transfer("gpu1", "gpu2", CopyMethod.PEER, True) in found


def test_sizes_end_with_the_most() -> None:
    one = Transfer("gpu0", "gpu1", CopyMethod.PEER)
    assert sizes(one, 1 << 28) == [*SIZES, 1 << 28] and sizes(one, 1 << 20) == [8, 1 << 16, 1 << 20]
    assert sizes(Transfer("cpu0", "gpu0", CopyMethod.PAGEABLE), 1 << 28)[-1] == 1 << 26


def test_a_gpu_that_only_the_driver_lists_gets_a_place(tmp_path: Path) -> None:
    m = with_gpu(detect(tmp_path), "gpu0", "0000:1b:00.0", "NVIDIA H200")
    (gpu,) = m.gpus
    assert m.devices[gpu].model == "NVIDIA H200" and Paths(m).cpu(gpu) == 0
    assert any(note.about == "gpu0" and "the CUDA driver does" in note.text for note in m.notes)
    assert [t.method.value for t in transfers(m, ["gpu0"], lambda a, b: "")].count("pinned") == 3


def test_this_machines_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        driver()
    except RuntimeError as error:
        pytest.skip(str(error))
    files = {name: str(tmp_path / f"{name}.json") for name in ("devices", "copies")}
    words = ["--seconds", "5", "--maxbytes", "64M", "--output", files["devices"], "--json", files["copies"]]
    assert main(["tune", "--device", "cuda", *words]) == 0
    table = copies_table.read(files["copies"])
    rates = table.rates()
    for transfer, rate in rates.items():
        assert 1e8 < rate.bandwidth_Bps < 2e13 and 1e-7 < rate.latency_s < 1e-2, transfer
    locally = [rate.bandwidth_Bps for transfer, rate in rates.items() if transfer.method is CopyMethod.LOCAL]
    hosts = [rate.bandwidth_Bps for transfer, rate in rates.items() if transfer.method is CopyMethod.PINNED]
    assert min(locally) > max(hosts)
    assert len(find(files["devices"]).gpus) >= len(locally) > 0
    assert json.loads(Path(files["copies"]).read_text())["form"] == 1 and "written to" in capsys.readouterr().out
