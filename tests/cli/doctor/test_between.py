"""Findings between hosts, from rows and links as the hosts give them; and how many hosts are shown."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ringtree.bench.host_links import HostLinks
from ringtree.cli.doctor.between import findings
from ringtree.cli.doctor.check import State
from ringtree.cli.doctor.shown import lines
from ringtree.cli.on_hosts import same_hosts
from ringtree.draw.text.lines import plain
from ringtree.ir.units import bandwidth

RATE_BPS = 1e9
ROWS: dict[tuple[str, str], dict[str, Any]] = {
    ("software", "ringtree"): {"ringtree": "0.1.0", "build": "abc"},
    ("software", "python"): {"python": "3.11.1", "numpy": "2.0"},
    ("software", "torch"): {"torch": "2.13.0", "registers": True},
    ("wires", "wire"): {"wire": "tcp"},
    ("wires", "ucx"): {"version": "1.18.0"},
    ("resources", "cores"): {"usable_cores": 8},
    ("settings", "tune"): {"date": "a Sunday", "bandwidth_Bps": RATE_BPS},
}
"""The figures of a host's rows."""


def card(name: str, rate_Bps: float = 0.0, mtu_bytes: int = 1500, kind: str = "device") -> dict[str, Any]:
    """The figures of an interface's row."""
    fields = {"name": name, "up": True, "rate_Bps": rate_Bps, "mtu_bytes": mtu_bytes, "kind": kind, "driver": ""}
    return {**fields, "lower": (), "addresses": ["10.0.0.1"], "containers": False}


def host(number: int, *cards: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """A host whose figures of those names are changed."""
    rows = [
        {"section": section, "name": name, "figures": {key: changed.get(key, value) for key, value in figures.items()}}
        for (section, name), figures in ROWS.items()
    ]
    rows += [{"section": "network", "name": each["name"], "figures": each} for each in cards or [card("eth0")]]
    return {"host": number, "name": f"lab{number}", "ranks": [number], "checks": rows}


def links(hosts: int, interface: str = "eth0", rate_Bps: float = RATE_BPS) -> HostLinks:
    """All alike. `interface`: by which host 0 is joined; the others are by eth0."""
    latency_s, bandwidth_Bps = np.full((hosts, hosts), 3e-5), np.full((hosts, hosts), rate_Bps)
    for values in (latency_s, bandwidth_Bps):
        np.fill_diagonal(values, np.nan)
    ways = [
        [None if i == j else {"interface": "eth0" if i else interface, "address": f"10.0.0.{i}"} for j in range(hosts)]
        for i in range(hosts)
    ]
    return HostLinks(latency_s, bandwidth_Bps, ways, 1.0, 2.0)


@pytest.mark.parametrize(
    ("changed", "name", "state", "words"),
    [
        ({"build": "def"}, "build", "problem", "differs: abc on lab0, lab2; def on lab1"),
        ({"ringtree": "0.2.0"}, "ringtree", "problem", "0.2.0 on lab1"),
        ({"wire": "ucx"}, "wire", "problem", "ucx on lab1"),
        ({"python": "3.12.0"}, "python", "note", "3.12.0 on lab1"),
        ({"torch": None}, "torch", "note", "None on lab1"),
        ({"version": "1.19.0"}, "version", "note", "1.19.0 on lab1"),
        ({"usable_cores": 4}, "usable cores", "note", "4 on lab1"),
    ],
)
def test_figures_that_differ(changed: dict[str, Any], name: str, state: str, words: str) -> None:
    (found,) = findings([host(0), host(1, **changed), host(2)], links(3))
    assert (found.name, found.state.value) == (name, state) and words in found.found


def test_hosts_that_are_alike_have_no_findings() -> None:
    assert findings([host(0), host(1)], links(2)) == [] and findings([host(0)], None) == []


@pytest.mark.parametrize(
    ("cards", "interface", "name", "state", "words", "remedy"),
    [
        ([card("eth0", 1e9), card("eth1", 1e10)], "eth0", "interface", "note", "of 8 Gb/s; eth1 has 80 Gb/s", "eth1"),
        (
            [card("docker0", kind="bridge"), card("eth1")],
            "docker0",
            "interface",
            "problem",
            "containers of one",
            "eth1",
        ),
        ([card("docker0", kind="bridge")], "docker0", "interface", "note", "through docker0 (10.0.0.0)", ""),
        ([card("lo", kind="loopback"), card("eth1")], "lo", "interface", "problem", "for this host alone", "eth1"),
        ([card("eth0", mtu_bytes=9000)], "eth0", "MTU", "note", "1500 on lab1 (eth0); 9000 on lab0 (eth0)", ""),
        ([card("eth0", 1e10)], "eth0", "rate", "note", "1 GB/s pass a link, 10% of the cards' 80 Gb/s", "CONNECTIONS"),
        ([card("eth0", 1e10, kind="virtual")], "eth0", "", "", "", ""),  # a veth's rate is no card's
    ],
)
def test_interfaces(
    cards: list[dict[str, Any]], interface: str, name: str, state: str, words: str, remedy: str
) -> None:
    found = findings([host(0, *cards), host(1)], links(2, interface))
    assert [(one.name, one.state.value) for one in found] == ([(name, state)] if name else [])
    for one in found:
        assert words in one.found and bool(one.remedies) == bool(remedy)
        assert all(one_remedy.startswith("export RINGTREE_") and remedy in one_remedy for one_remedy in one.remedies)


@pytest.mark.parametrize(
    ("before_Bps", "words"), [(None, "not in the file"), (RATE_BPS * 3, "stale"), (RATE_BPS / 3, "stale")]
)
def test_a_network_that_was_never_measured_or_has_changed(before_Bps: float | None, words: str) -> None:
    (found,) = findings([host(0, bandwidth_Bps=before_Bps), host(1)], links(2))
    assert found.state is State.NOTE and words in found.found and found.remedies == ("ringtree tune",)
    (found,) = findings([host(0, bandwidth_Bps=before_Bps), host(1)], links(2), "ringtree tune --hosts a,b")
    assert found.remedies == ("ringtree tune --hosts a,b",) and "as this command was started" not in found.found


def test_the_command_to_measure_with_names_the_hosts_and_the_way_to_them() -> None:
    args = argparse.Namespace(hosts="a:2,b", ssh="ssh -p 22", python=None)
    assert same_hosts(args, "ringtree", "tune") == "ringtree tune --hosts a:2,b --ssh 'ssh -p 22'"


def test_two_speeds() -> None:
    made = links(4)
    made.bandwidth_Bps[:2, 2:] = made.bandwidth_Bps[2:, :2] = RATE_BPS / 10
    found = findings([host(n) for n in range(4)], made)
    assert [one.name for one in found] == ["links"] or [one.name for one in found] == ["links", "network"]
    assert "the network has two speeds" in found[0].found and found[0].state is State.NOTE


def document(hosts: int, slow: int = 0) -> dict[str, Any]:
    """A result of so many hosts, with that many slow links."""
    check = {"section": "settings", "name": "tune", "state": "note", "found": "never", "remedies": ["ringtree tune"]}
    far = {**check, "name": "chosen", "state": "problem", "found": "docker0", "remedies": []}
    made = links(hosts)
    named = [{**check, "name": "slow link", "state": "problem", "found": f"link {n}"} for n in range(slow)]
    return {
        "problems": 1,
        "notes": 1,
        "hosts": [{"name": f"lab{n}", "checks": [check, *([far] if n else [])]} for n in range(hosts)],
        "findings": named,
        "links": {
            "latency_s": [[None if np.isnan(v) else v for v in row] for row in made.latency_s.tolist()],
            "bandwidth_Bps": [[None if np.isnan(v) else v for v in row] for row in made.bandwidth_Bps.tolist()],
            "pair_budget_s": 1.0,
            "took_s": 2.0,
        },
    }


def test_a_row_of_many_hosts_is_shown_once() -> None:
    text = plain(list(lines(document(9))))
    assert text.count("never") == 1 and text.count("docker0") == 1
    assert "problem  lab1, lab2, lab3, lab4 and 4 more: chosen  docker0" in text
    assert text.count(bandwidth(RATE_BPS)) == 9 * 8 and text.endswith("1 problem, 1 note")


def test_what_is_much_is_cut() -> None:
    text = plain(list(lines(document(17, slow=20))))
    assert "too many hosts to print" in text and bandwidth(RATE_BPS) not in text
    assert "link 7\n" in text and "link 8" not in text and "12 further slow links; --json has all" in text


def test_links_without_a_way_have_no_interface() -> None:
    made = replace(links(2), ways=[[None, None], [None, None]])
    assert findings([host(0), host(1)], made) == []
