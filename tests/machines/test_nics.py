"""Other network cards: how many, how quick, and where."""

import pytest

from ringtree.machines.files.reading import find
from ringtree.machines.machine import Device, DeviceKind, Link, LinkKind, Machine, NoteKind, both_ways
from ringtree.machines.nics import usual_fabric, with_nics


def server(gpus: int = 4, nics: int = 2, **nic: object) -> Machine:
    """A CPU, a PCIe switch a pair of GPUs, and the NICs at the first switches."""
    devices = [Device("cpu0", DeviceKind.CPU, numa=0)]
    links: list[Link] = []
    for s in range(gpus // 2):
        devices.append(Device(f"pci{s}", DeviceKind.PCI, numa=0))
        links += both_ways(Link(len(devices) - 1, 0, LinkKind.PCIE, 31.5e9, generation=4, width=16))
        at = len(devices) - 1
        for g in (2 * s, 2 * s + 1):
            devices.append(Device(f"gpu{g}", DeviceKind.GPU, vendor="nvidia", sm=80))
            links += both_ways(Link(len(devices) - 1, at, LinkKind.PCIE, 31.5e9, generation=4, width=16))
        if s < nics:
            devices.append(Device(f"nic{s}", DeviceKind.NIC, rate_Bps=25e9, **nic))  # type: ignore[arg-type]
            links += both_ways(Link(len(devices) - 1, at, LinkKind.PCIE, 31.5e9, generation=4, width=16))
    return Machine("server", tuple(devices), tuple(links))


def parents(machine: Machine) -> list[str]:
    """The parent of each NIC."""
    return [machine.devices[machine.links[machine.leaving(n)[0]].target].name for n in machine.nics]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, ["pci0"]),
        (2, ["pci0", "pci1"]),
        (4, ["pci0"] * 2 + ["pci1"] * 2),
        (5, ["pci0"] * 2 + ["pci1"] * 2 + ["pci0"]),
    ],
)
def test_nics_are_near_the_gpus_in_turn(count: int, expected: list[str]) -> None:
    machine = with_nics(server(), count, 50e9)
    assert parents(machine) == expected
    assert [machine.devices[n].rate_Bps for n in machine.nics] == [50e9] * count
    assert len(machine.gpus) == 4


def test_an_equal_number_of_nics_keeps_slots_and_names() -> None:
    before = server()
    after = with_nics(before, 2, 12.5e9)
    assert [after.devices[n].name for n in after.nics] == [before.devices[n].name for n in before.nics]
    assert parents(after) == parents(before)
    assert not after.notes


def test_more_nics_are_not_the_same_port() -> None:
    """NCCL takes NICs of one guid and port as one."""
    port = {
        "guid": "0x1",
        "port": "1",
        "dev": "0",
        "net": "ib0",
        "speed": "200000",
        "vendor": "0x15b3",
        "class": "0x020700",
    }
    machine = with_nics(server(attributes=port), 4, 50e9)
    assert [dict(machine.devices[n].attributes) for n in machine.nics] == [
        {"vendor": "0x15b3", "class": "0x020700"}
    ] * 4
    kept = with_nics(server(attributes=port), 2, 50e9)
    assert all(kept.devices[n].attributes == port for n in kept.nics)


def test_a_slot_that_is_too_slow_is_assumed_quick_with_a_note() -> None:
    machine = with_nics(server(), 2, 50e9)
    assert [n.kind for n in machine.notes] == [NoteKind.ASSUMED] * 2
    assert all(machine.links[machine.leaving(n)[0]].bandwidth_Bps == 50e9 for n in machine.nics)


@pytest.mark.parametrize(("count", "rate"), [(0, 1e9), (2000, 1e9), (1, 0.0), (1, float("nan")), (1, 1e300)])
def test_no_nics_or_no_rate_is_refused(count: int, rate: float) -> None:
    with pytest.raises(ValueError, match="expected 1 to 1024"):
        with_nics(server(), count, rate)


def test_a_machine_without_gpus_has_them_at_its_cpus() -> None:
    cpus = tuple(Device(f"cpu{n}", DeviceKind.CPU, numa=n) for n in range(2))
    machine = with_nics(Machine("two", cpus, both_ways(Link(0, 1, LinkKind.CPU, 20e9))), 2, 25e9)
    assert parents(machine) == ["cpu0", "cpu1"]


@pytest.mark.parametrize(
    ("nic", "expected"),
    [
        ({"vendor": "mellanox"}, "infiniband"),
        ({"vendor": "0x15b3", "attributes": {"class": "0x020700"}}, "infiniband"),
        ({"vendor": "0x15b3", "attributes": {"class": "0x020000"}}, "roce"),
        ({"vendor": "0x1d0f"}, "efa"),
        ({"gdr": False}, "tcp"),
        ({"vendor": "mellanox", "attributes": {"fabric": "tcpx"}}, "tcpx"),
    ],
)
def test_the_fabric_is_the_cards_own(nic: dict[str, object], expected: str) -> None:
    assert usual_fabric(server(**nic)) == expected  # type: ignore[arg-type]


def test_no_nic_has_no_fabric() -> None:
    assert usual_fabric(server(nics=0)) is None


def test_a_fabric_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="is for fabric 'foo'; expected one of infiniband, "):
        usual_fabric(server(attributes={"fabric": "foo"}))


def test_a_gpu_on_c2c_gives_a_nic_the_slot_of_the_machines_own() -> None:
    grace = find("gh200x4")
    machine = with_nics(grace.part(range(1)), 2, 25e9)
    (own,) = (grace.links[n] for n in grace.leaving(grace.nics[0]))
    for nic in machine.nics:
        (link,) = (machine.links[n] for n in machine.leaving(nic))
        assert (link.kind, link.generation, link.width) == (LinkKind.PCIE, own.generation, own.width)


@pytest.mark.parametrize(("Gbps", "noted"), [(400, False), (800, False), (800.8, True), (3200, True)])
def test_a_rate_that_no_known_nic_has_is_noted(Gbps: float, noted: bool) -> None:
    machine = with_nics(server(), 2, Gbps / 8 * 1e9)
    text = f"{Gbps:,g} Gb/s is more than any NIC known here has, 800 Gb/s"
    assert [n.text for n in machine.notes if n.kind is NoteKind.UNKNOWN] == [text] * 2 * noted
