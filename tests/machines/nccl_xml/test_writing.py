"""Written files read back as the same graph, and satisfy NCCL's own parser."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ringtree.machines import catalogue, pci
from ringtree.machines.files import nccl_xml, nvidia_smi
from ringtree.machines.files.xml_elements import elements
from ringtree.machines.machine import Device, DeviceKind, Link, LinkKind, Machine
from ringtree.machines.nics import usual_fabric


def graph(m: Machine) -> tuple[object, ...]:
    """Devices with all that is known of them but free attributes, local ranks, slots of NICs, and links; parallel
    links of one generation are one."""
    devices = {
        d.name: (d.kind, d.vendor, d.model, d.numa, d.sm, d.gdr, d.rate_Bps, round(d.latency_s, 12)) for d in m.devices
    }
    bandwidth, width = Counter[object](), Counter[object]()
    for k in m.links:
        ends = (m.devices[k.source].name, m.devices[k.target].name, k.kind, k.generation)
        bandwidth[ends] += k.bandwidth_Bps
        width[ends] += k.width
    order = [[m.devices[n].name for n in of] for of in (m.gpus, m.nics)]
    return devices, bandwidth, width, order, {k.latency_s for k in m.links}


def again(m: Machine) -> Machine:
    text = nccl_xml.text(m)
    as_nccl_parses(text)
    return nccl_xml.machine_of(elements(text.encode(), "again.xml"))


def as_nccl_parses(text: str) -> None:
    """Requirements of its parser and builder (src/graph/xml.cc, topo.cc)."""
    assert text.startswith("<system ")
    needed = {
        "cpu": {"numaid", "arch", "vendor", "familyid", "modelid"},
        "pci": {"busid", "class", "link_speed", "link_width"},
        "gpu": {"dev", "sm", "rank", "gdr"},
        "nvlink": {"target", "count", "tclass"},
        "xgmi": {"target", "count", "tclass"},
        "c2c": {"bw", "count"},
        "net": {"name", "dev", "speed", "gdr"},
    }
    busids = []
    for line in text.splitlines():
        tag, attributes = re.fullmatch(r" *</?(\w+)((?: [\w]+=\"[^\"<>]{0,254}\")*)/?>", line).groups()  # type: ignore[union-attr]
        attrs = dict(re.findall(r' (\w+)="([^"]*)"', attributes))
        assert len(attrs) <= 16
        if "</" not in line:
            assert needed.get(tag, set()) <= set(attrs), line
        if tag == "pci" and attrs:
            busids.append(attrs["busid"])
            assert re.fullmatch(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]", attrs["busid"])
            assert re.fullmatch(r"0x[0-9a-f]{6}", attrs["class"])
            assert pci.generation_for_nccl(attrs["link_speed"]) == pci.generation(attrs["link_speed"]) > 0
            assert 1 <= int(attrs["link_width"]) <= 32
        if tag == "c2c":
            assert attrs["bw"].isdecimal()
    assert len(set(busids)) == len(busids)


@pytest.mark.parametrize("name", catalogue.NAMES)
def test_every_machine_of_the_catalogue_is_read_back(name: str) -> None:
    machine = catalogue.machine(name)
    assert graph(again(machine)) == graph(machine)
    assert usual_fabric(again(machine)) == usual_fabric(machine)


@pytest.mark.parametrize(("name", "fabric"), [("mlx5_0", "infiniband"), ("hsn0", "infiniband"), ("mlx5_0", "roce")])
def test_nics_of_nvidia_smis_matrix_are_read_back_as_of_their_fabric(name: str, fabric: str) -> None:
    machine = nvidia_smi.parse(f"\tGPU0\t{name}\nGPU0\tX\tPIX\n{name}\tPIX\tX\n".encode(), "smi.txt")
    if fabric == "roce":
        nic = replace(machine.devices[machine.nics[0]], attributes={"class": "0x020000"})
        machine = replace(machine, devices=tuple(nic if d.kind is DeviceKind.NIC else d for d in machine.devices))
    assert usual_fabric(again(machine)) == usual_fabric(machine) == fabric


def test_every_real_file_is_read_back(data_folder: Path, tmp_path: Path) -> None:
    files = [f for f in sorted((data_folder / "nccl_topo_xml").glob("*.xml")) if b"<system" in f.read_bytes()]
    for file in files:
        machine = nccl_xml.read(file)
        as_nccl_parses(nccl_xml.text(machine))
        path = tmp_path / file.name
        nccl_xml.write(machine, path)
        same = nccl_xml.read(path)
        assert graph(same) == graph(machine), file
        assert usual_fabric(same) == usual_fabric(machine), file
        assert {(d.name, d.busid) for d in machine.devices if d.busid} <= {(d.name, d.busid) for d in same.devices}
        assert nccl_xml.text(same) == path.read_text()
    assert len(files) >= 21


KINDS = [k for k in DeviceKind if k is not DeviceKind.CPU]


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """Any devices and links, as no maker builds them."""
    kinds = [DeviceKind.CPU, *draw(st.lists(st.sampled_from(list(DeviceKind)), max_size=8))]
    devices = tuple(
        Device(
            f"d{n}&\"'<{n}",
            kind,
            draw(st.sampled_from(["nvidia", "amd", "mellanox", "GenuineIntel"])),
            draw(st.sampled_from(["A100 SXM4 40GB", "MI300X", "some <thing>", "EPYC 7742"])),
            busid=draw(st.sampled_from([f"0000:{n:02x}:00.0", "", "0000:01:00.0", "x"])),
            numa=draw(st.integers(-1, 3)),
            sm=0,
            gdr=draw(st.booleans()) if kind in (DeviceKind.GPU, DeviceKind.NIC) else True,
            rate_Bps=draw(st.integers(1, 10**6)) * 1e6 / 8 if kind is DeviceKind.NIC else 0.0,
        )
        for n, kind in enumerate(kinds)
    )
    ends = st.integers(0, len(devices) - 1)
    links = draw(
        st.lists(
            st.builds(
                Link,
                ends,
                ends,
                st.sampled_from(list(LinkKind)),
                st.floats(1e6, 1e12).map(round).map(float),
                st.sampled_from([0.0, 1e-6]),
                st.integers(0, 7),
                st.integers(1, 40),
            ),
            max_size=12,
        )
    )
    kept = {(k.source, k.target, k.kind, k.generation): k for k in links if k.source != k.target}
    return Machine("any", devices, tuple(kept.values()))


SLOW_C2C = Machine(
    "slow",
    (
        Device("cpu", DeviceKind.CPU, "nvidia", busid="0000:00:00.0"),
        Device("gpu", DeviceKind.GPU, "nvidia", busid="0000:01:00.0"),
    ),
    (Link(1, 0, LinkKind.C2C, 1e6, 0.0, 0, 2),),
)
"""A lane of it has less than 1 MB/s, the format's unit."""


@given(machines())
@example(SLOW_C2C)
def test_any_machine_with_a_cpu_is_read_back(machine: Machine) -> None:
    assert graph(again(machine)) == graph(machine)


def test_a_machine_that_the_format_cannot_hold_is_refused_and_the_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "topo.xml"
    path.write_text("before")
    gpu = Device("gpu0", DeviceKind.GPU)
    long = Device("cpu" + "0" * 300, DeviceKind.CPU)
    for devices, expected in (((gpu,), "expected one: in NCCL's format"), ((long,), "at most 254")):
        with pytest.raises(ValueError, match=expected):
            nccl_xml.write(Machine("m", devices, ()), path)
    assert path.read_text() == "before"
