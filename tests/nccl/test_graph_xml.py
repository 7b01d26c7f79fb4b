"""NCCL's graph files: written ones read back, real ones load, and hostile ones are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ringtree.machines.catalogue import NAMES, machine
from ringtree.machines.channels import Channels, Pattern
from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import PathKind
from ringtree.nccl.files.graph_xml import hosts, read, write
from ringtree.nccl.graphs import graphs
from ringtree.topology.fabrics import FABRICS
from tests.nccl.combinations import GB200_RACKS

ORDERS = ((0, 3, 2, 1), (1, 0, 2, 3))
KINDS = [k for k in PathKind if k not in (PathKind.C2C, PathKind.NET, PathKind.DIS)]
CHANNELS = st.builds(
    lambda orders, nics, intra, inter, kinds, latency, cross, same: Channels(
        Pattern.RING, tuple(orders), tuple(nics[: len(orders)]), intra * 1e9, inter * 1e9, *kinds, latency, cross, same
    ),
    st.lists(st.permutations(range(4)).map(tuple), min_size=1, max_size=5),
    st.one_of(st.just([]), st.lists(st.tuples(st.integers(0, 31), st.integers(0, 31)), min_size=5, max_size=5)),
    st.sampled_from([60.0, 20.0, 0.24]),
    st.sampled_from([48.0, 45.1]),
    st.tuples(st.sampled_from(KINDS), st.sampled_from(KINDS)),
    st.sampled_from([0.0, 3e-6]),
    st.sampled_from([0, 2]),
    st.booleans(),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CHANNELS)
def test_written_graphs_read_back(tmp_path: Path, ring: Channels) -> None:
    file = tmp_path / "graph.xml"
    file.write_text(write({Pattern.RING: ring}), encoding="utf-8")
    assert read(file) == {Pattern.RING: ring}


@pytest.mark.parametrize("pattern", [Pattern.TREE, Pattern.BALANCED_TREE, Pattern.SPLIT_TREE])
def test_every_tree_is_graph_1(tmp_path: Path, pattern: Pattern) -> None:
    tree = Channels(pattern, ORDERS, (), 20e9, 20e9, PathKind.NVL, PathKind.PIX)
    file = tmp_path / "graph.xml"
    file.write_text(write({Pattern.TREE: tree}), encoding="utf-8")
    assert '<graph id="1"' in file.read_text()
    assert read(file) == {Pattern.TREE: tree}


def test_an_nvls_channel_has_its_head_alone(tmp_path: Path) -> None:
    ring = Channels(Pattern.RING, ORDERS, (), 20e9, 20e9)
    nvls = Channels(Pattern.NVLS, ((2, 0, 1, 3),), (), 40e9, 60e9, PathKind.NVL, PathKind.PIX, same=False)
    file = tmp_path / "graph.xml"
    file.write_text(write({Pattern.RING: ring, Pattern.NVLS: nvls}), encoding="utf-8")
    assert file.read_text().count("<gpu") == 8 + 1
    assert read(file)[Pattern.NVLS] == nvls


def test_devices_of_a_rack_carry_their_host(tmp_path: Path) -> None:
    rack = machine("gb200-nvl72")
    turned = (*range(5, 72), *range(5))
    ring = Channels(Pattern.RING, (turned,), ((4, 71),), 45e9, 45e9, PathKind.NVL, PathKind.P2C)
    file = tmp_path / "graph.xml"
    file.write_text(write({Pattern.RING: ring}, rack))
    assert file.read_text().split("\n")[3:5] == [
        '      <net dev="0x100000000000000"/>',
        '      <gpu dev="0x100000000000001"/>',
    ]
    assert read(file, rack) == {Pattern.RING: ring}
    assert read(file)[Pattern.RING].orders == ring.orders
    with pytest.raises(ValueError, match="no such net in the machine"):
        read(file, machine("dgx-h100"))


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize(
    "name", ["dgx-h100", pytest.param("gb200-nvl72", marks=pytest.mark.slow), "dgx-1-v100", "azure-nc96"]
)
def test_searched_graphs_read_back(tmp_path: Path, name: str, nodes: int) -> None:
    where = Cluster(machine(name), nodes, FABRICS["infiniband"], sharp=True)
    found = graphs(where)
    file = tmp_path / "graph.xml"
    file.write_text(write(found, where.machine))
    assert read(file, where.machine) == found


def test_a_path_type_nccl_has_no_word_for_is_the_next_farther_one() -> None:
    assert 'typeintra="PIX" typeinter="SYS"' in write(
        {Pattern.RING: Channels(Pattern.RING, ORDERS, (), 1e9, 1e9, PathKind.C2C, PathKind.NET)}
    )


def test_azures_graph_of_four_gpus_loads(data_folder: Path) -> None:
    found = read(data_folder / "nccl_topo_xml" / "azure__ncv4-graph.xml")
    assert found[Pattern.RING].orders == ((0, 1, 2, 3), (0, 3, 2, 1))
    assert found[Pattern.RING].intra_Bps == 12e9
    assert found[Pattern.TREE].pattern is Pattern.BALANCED_TREE
    assert found[Pattern.COLLNET_CHAIN].count == 4


GRAPH = (
    '<graph id="0" pattern="4" crossnic="0" nchannels="1" speedintra="12" speedinter="12" typeintra="SYS" '
    'typeinter="PIX" samechannels="0"><channel><gpu dev="0"/><gpu dev="1"/></channel></graph>'
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<system version="1"/>', "expected <graphs>"),
        ('<graphs version="2"/>', "version"),
        ('<graphs version="1"/>', "no <graph> with channels"),
        (GRAPH.replace('nchannels="1"', 'nchannels="2"'), "nchannels=2 and 1 <channel>"),
        (GRAPH.replace('nchannels="1"', 'nchannels="99999999"'), "nchannels"),
        (GRAPH.replace('id="0"', 'id="9"'), "id"),
        (GRAPH.replace('pattern="4"', 'pattern="0"'), "pattern"),
        (GRAPH.replace('dev="1"', 'dev="0"'), "2 <gpu>, 1 of them different"),
        (GRAPH.replace('dev="1"', 'dev="x"'), "device number in hex"),
        (GRAPH.replace('dev="1"', 'dev="-1"'), "device number in hex"),
        (GRAPH.replace(' dev="1"', ""), "lacks the attribute dev"),
        (GRAPH.replace("SYS", "C2C"), "expected typeintra to be one of LOC"),
        (GRAPH.replace('speedintra="12"', 'speedintra="nan"'), "speedintra"),
        (GRAPH.replace("<channel>", '<channel><net dev="0"/>'), "1 <net>"),
        (GRAPH + GRAPH, 'a second graph of id="0"'),
        ('<!DOCTYPE g [<!ENTITY a "b">]>' + GRAPH, "entity"),
        (GRAPH[:-9], "not well-formed"),
    ],
)
def test_graphs_that_nccl_rejects_are_refused_in_one_line(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "graph.xml"
    whole = text if text.startswith(("<graphs", "<system", "<!")) else f'<graphs version="1">{text}</graphs>'
    file.write_text(whole, encoding="utf-8")
    with pytest.raises(ValueError, match=expected) as raised:
        read(file)
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith(str(file))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, len(GRAPH) - 1), st.binary(min_size=1, max_size=4))
def test_a_damaged_file_is_read_or_refused(tmp_path: Path, at: int, noise: bytes) -> None:
    whole = f'<graphs version="1">{GRAPH}</graphs>'.encode()
    file = tmp_path / "graph.xml"
    file.write_bytes(whole[:at] + noise + whole[at + len(noise) :])
    try:
        assert read(file)
    except ValueError as error:
        assert str(error).startswith(str(file))


RACKS = {**dict.fromkeys(GB200_RACKS, (18, 4)), "dgx-h100-superpod": (32, 8)}
"""Machines of several hosts; every other one of the catalogue is one."""


@pytest.mark.parametrize("name", NAMES)
def test_hosts_are_joined_by_nvswitches_alone(name: str) -> None:
    found = machine(name)
    of = hosts(found)
    count, gpus = RACKS.get(name, (1, len(found.gpus)))
    assert sorted(set(of)) == list(range(count))
    assert [of[g] for g in found.gpus] == [n // gpus for n in range(len(found.gpus))]
