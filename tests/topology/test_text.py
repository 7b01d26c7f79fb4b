"""Topologies are read from a few words or from JSON, and errors are named in one line."""

import json

import numpy as np
import pytest

from ringtree.topology import cluster, direct, load, on_hosts, parse, ring, save, torus
from ringtree.topology.graph import LINK_COLUMNS
from ringtree.topology.text import bytes_per_second, seconds


def same(a, b):
    columns = all(np.array_equal(getattr(a, key), getattr(b, key)) for key in (*LINK_COLUMNS, "hosts"))
    return columns and (a.name, a.ranks, a.nodes, a.message_s, a.copy_Bps, a.fifo_between_hosts) == (
        b.name,
        b.ranks,
        b.nodes,
        b.message_s,
        b.copy_Bps,
        b.fifo_between_hosts,
    )


@pytest.mark.parametrize(
    ("spec", "topology"),
    [
        ("direct", direct(8)),
        ("direct:", direct(8)),
        ("ring:latency=2us,bandwidth=200Gb/s", ring(8, latency_s=2e-6, bandwidth_Bps=25e9)),
        ("torus:dims=2x4,message=300ns", torus(2, 4, message_s=300 * 1e-9)),
        ("cluster:hosts=2,nics=4,local_latency_s=1ms", cluster(2, 4, nics=4, local_latency_s=1e-3)),
        ("switch:copy=inf,reduce=1.5GB/s", parse("switch:reduce_Bps=1500MB/s", 8)),
    ],
)
def test_a_shape_in_a_few_words(spec, topology):
    assert same(parse(spec, 8), topology)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mesh", "no shape 'mesh'; expected one of direct, switch, ring, torus, cluster"),
        ("ring:speed=3", "'speed=3': expected one of latency=, bandwidth=, message="),
        ("ring:latency", "'latency': expected one of"),
        ("ring:latency=5", "latency: '5' is no time; expected such as 5us"),
        ("ring:bandwidth=5us", "bandwidth: '5us' is no bandwidth; expected such as 25GB/s"),
        ("ring:latency=1us,latency=2us", "latency is given twice"),
        ("torus", "expected dims= whose product is 8"),
        ("torus:dims=3x3", "expected dims= whose product is 8"),
        ("torus:dims=2x", "dims: '2x'; expected such as 4x4"),
        ("cluster", "expected hosts= that divides 8"),
        ("cluster:hosts=3", "expected hosts= that divides 8"),
        ("cluster:hosts=two", "hosts: 'two'; expected a whole number"),
        ("ring:copy=0B/s", "copy_Bps is 0.0; expected at least 1e-09"),
    ],
)
def test_a_bad_spec_is_named(spec, message):
    with pytest.raises(ValueError, match=message) as caught:
        parse(spec, 8)
    assert str(caught.value).startswith(f"topology {spec!r}: ")


def test_units():
    assert [seconds(t) for t in ("2s", "1.5 ms", "3us", "4µs", "1e2ns")] == pytest.approx([2, 1.5e-3, 3e-6, 4e-6, 1e-7])
    assert [bytes_per_second(t) for t in ("8b/s", "1KB/s", "100Gbps", "inf")] == [1, 1e3, 12.5e9, np.inf]


@pytest.mark.parametrize(
    "topology",
    [
        direct(3),
        cluster(2, 2, message_s=1e-7),
        ring(4, bandwidth_Bps=np.inf),
        ring(1),
        on_hosts((0, 1), fifo_between_hosts=True),
    ],
)
def test_json_is_read_back(topology, tmp_path):
    save(topology, tmp_path / "t.json")
    assert same(load(tmp_path / "t.json"), topology)


PAIR = {
    "name": "pair",
    "ranks": 2,
    "nodes": ["a", "b"],
    "links": [{"source": "a", "target": "b", "latency_s": 1e-6}],
}


def test_omitted_limits_are_infinite(tmp_path):
    (tmp_path / "t.json").write_text(json.dumps(PAIR))
    assert load(tmp_path / "t.json").bandwidth_Bps.tolist() == [np.inf]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ([], r"the topology is \[\]; expected an object"),
        ({"ranks": "2"}, 'ranks is "2"; expected a whole number'),
        ({"ranks": True}, "ranks is true"),
        ({"ranks": 2**31 - 1}, "2147483647 ranks and 2 nodes"),
        ({"name": 3}, "name is 3; expected a text"),
        ({"name": "\x1b[2J"}, r"name is \"\\u001b\[2J\"; expected a text that can be printed"),
        ({"nodes": ["a", "\ud800"]}, "expected a list of names that can be printed"),
        ({"nodes": "ab"}, 'nodes is "ab"; expected a list of names'),
        ({"nodes": ["a", 1]}, "expected a list of names"),
        ({"colour": 1}, 'the topology has "colour"; expected only'),
        ({"links": {}}, "links is {}; expected a list"),
        ({"links": [7]}, r"links\[0\] is 7; expected an object"),
        ({"links": [{"source": "a", "latency_s": 1}]}, r"links\[0\] lacks 'target'"),
        (
            {"links": [{"source": "a", "target": ["b"], "latency_s": 1}]},
            r"links\[0\].target is \[\"b\"\]; expected the",
        ),
        ({"links": [{"source": "a", "target": "b", "latency_s": "1us"}]}, r"latency_s is \"1us\"; expected a number"),
        ({"links": [{"source": "a", "target": "b", "latency_s": float("nan")}]}, "latency_s is NaN; expected a number"),
        ({"links": [{"source": "a", "target": "b", "latency_s": 10**400}]}, "link 0 .*expected a latency"),
        ({"links": [PAIR["links"][0] | {"bandwidth_Bps": -(10**400)}]}, "link 0 .*expected a bandwidth"),
        ({"links": [PAIR["links"][0] | {"bandwidth_Bps": 5e-324}]}, "link 0 .*expected a bandwidth of 0, or at least"),
        ({"hosts": [0]}, r"hosts is \[0\]; expected a list of 2 numbers"),
        ({"hosts": [0, -1]}, r"hosts\[1\] is -1"),
        ({"message_s": None}, "message_s is null; expected a number"),
        ({"fifo_between_hosts": 1}, "fifo_between_hosts is 1; expected true or false"),
    ],
)
def test_a_bad_file_is_named_with_its_element(change, message, tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps(PAIR | change if isinstance(change, dict) else change))
    with pytest.raises(ValueError, match=message) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", r"not JSON \(Expecting property name"),
        (b"\xff\xfe\xff", "not JSON: not text"),
        (b"[" * 100_000, "nested too deeply"),
        (b"9" * 10_000, "a number has too many digits"),
        (None, "no such file"),
    ],
)
def test_a_file_that_is_none_is_refused(data, message, tmp_path):
    path = tmp_path / "t.json"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(ValueError, match=message):
        load(path)
