"""Parts: generations as the whitepapers state them, ids that denote one part."""

from __future__ import annotations

from collections import Counter

import pytest

from ringtree.machines import parts


@pytest.mark.parametrize(("generation", "link", "gpu", "model"), [
    (1, 20, 80, "P100 SXM2"),
    (2, 25, 150, "V100 SXM2"),
    (3, 25, 300, "A100 SXM4 80GB"),
    (4, 25, 450, "H100 SXM5"),
    (5, 50, 900, "B200"),
])  # fmt: skip
def test_nvlink_per_link_and_per_gpu(generation: int, link: float, gpu: float, model: str) -> None:
    assert parts.NVLINK[generation].bandwidth_Bps == link * 1e9
    part = parts.GPUS[model]
    assert part.wire == generation and part.wires * link == gpu


@pytest.mark.parametrize(("generation", "ports", "gpu"), [(1, 18, 150), (2, 36, 300), (3, 64, 450), (4, 72, 900)])
def test_nvswitch_ports_and_a_gpus_bandwidth(generation: int, ports: int, gpu: float) -> None:
    switch = parts.NVSWITCH[generation]
    assert (switch.ports, switch.gpu_Bps) == (ports, gpu * 1e9)
    assert switch.sharp == (generation >= 3)


@pytest.mark.parametrize(("generation", "x16"), [(1, 4), (2, 8), (3, 15.75), (4, 31.5), (5, 63.0), (6, 121)])
def test_pcie_of_sixteen_lanes(generation: int, x16: float) -> None:
    assert 16 * parts.PCIE[generation].bandwidth_Bps == pytest.approx(x16 * 1e9, rel=1e-2)


def test_an_id_denotes_one_gpu() -> None:
    ids = Counter((g.vendor, i) for g in parts.GPUS.values() for i in g.ids)
    assert [i for i, times in ids.items() if times > 1] == []
    for model, device in (("A100 SXM4 40GB", 0x20B0), ("H100 SXM5", 0x2330), ("A100 PCIe 80GB", 0x20B5)):
        found = parts.gpu_by_id(0x10DE, device)
        assert found is not None and found.model == model
    assert parts.gpu_by_id(0x10DE, 0xFFFF) is None and parts.gpu_by_id(0xFFFF, 0x2330) is None


def test_an_id_denotes_a_nic() -> None:
    found = parts.nic_by_id(0x15B3, 0x1021)
    assert found is not None and found.model == "ConnectX-7 NDR"
    assert parts.nic_by_id(0x15B3, 0xFFFF) is None


def test_every_part_has_a_source() -> None:
    tables = (parts.PCIE, parts.NVLINK, parts.NVSWITCH, parts.XGMI, parts.C2C, parts.GPUS, parts.CPUS, parts.NICS)
    assert all(part.source for table in tables for part in table.values())


@pytest.mark.parametrize(
    ("vendor", "family", "modelid", "model"),
    [
        ("GenuineIntel", 6, 143, {"Xeon Platinum 8480C", "Xeon Platinum 8481C"}),
        ("GenuineIntel", 6, 63, {"Xeon E5-2698 v4"}),
        ("GenuineIntel", 6, 108, {"Xeon Platinum 8358"}),
        ("GenuineIntel", 15, 143, {None}),
        ("nobody", 6, 143, {None}),
    ],
)
def test_a_cpu_is_the_nearest_of_its_family(vendor: str, family: int, modelid: int, model: set[str | None]) -> None:
    part = parts.cpu_by_id(vendor, family, modelid)
    assert (part and part.model) in model
