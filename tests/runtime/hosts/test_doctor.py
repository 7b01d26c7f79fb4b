"""`ringtree doctor` by ranks of several hosts names the slow link and the wrong interface."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.runtime.hosts.conftest import made_lab
from tests.runtime.hosts.lab import Lab
from tests.runtime.hosts.launched import ssh

SLOW = "20mbit"
SLOW_BPS = 2.5e6
"""So slow that no busy machine is as slow."""
USUAL = "200mbit"
"""Ten times that, and less than a link without a bucket carries while the machine has other work."""
ANOTHER = (
    "link add eth1 type veth peer name unused1",
    "addr add 10.98.0.2/24 dev eth1",
    "link set unused1 up",
    "link set eth1 up",
)
"""An interface that leads to no other host."""


@pytest.fixture
def fresh() -> Iterator[Lab]:
    """Three hosts that a test may change."""
    yield from made_lab()


def doctor(lab: Lab, port: int, ranks: list[int], *words: str, **variables: str) -> tuple[int, dict[str, Any]]:
    """Rank 0's exit code and result; one rank on each of these hosts. The others print nothing."""
    running = [
        subprocess.Popen(
            [*lab.command(host), sys.executable, "-m", "ringtree.cli", "doctor", "--json", "--seconds", "4", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ
            | {
                "RINGTREE_RANK": str(rank),
                "RINGTREE_WORLD_SIZE": str(len(ranks)),
                "RINGTREE_ADDRESS": f"{lab.address(0)}:{port}",
                "RINGTREE_SECRET": "of the tests",
                "RINGTREE_TIMEOUT": "60",
            }
            | variables,
        )
        for rank, host in enumerate(ranks)
    ]
    try:
        shown = [process.communicate(timeout=120)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    assert not any(shown[1:]), shown
    assert [process.returncode for process in running[1:]] == [0] * (len(ranks) - 1)
    return running[0].returncode, json.loads(shown[0])


def findings(found: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [row for row in found["findings"] if row["name"] == name]


def test_every_pair_is_measured_and_a_host_that_sends_slowly_is_named(fresh: Lab) -> None:
    for host, rate in enumerate((USUAL, USUAL, SLOW)):
        fresh.run(host, f"tc qdisc add dev eth0 root tbf rate {rate} burst 64kb latency 50ms")
    code, found = doctor(fresh, 29560, [0, 1, 2, 2])
    assert code == 1 and [host["ranks"] for host in found["hosts"]] == [[0], [1], [2, 3]]
    assert [host["name"] for host in found["hosts"]] == ["lab0", "lab1", "lab2"]
    assert findings(found, "ranks")[0]["found"] == "4 ranks on 3 hosts met"
    links = found["links"]
    for matrix in (links["latency_s"], links["bandwidth_Bps"]):
        assert all((value is None) == (i == j) for i, row in enumerate(matrix) for j, value in enumerate(row))
    assert all(0.5 < rate / SLOW_BPS < 2 for rate in links["bandwidth_Bps"][2][:2])
    assert min(links["bandwidth_Bps"][0][1], links["bandwidth_Bps"][0][2]) > 3 * SLOW_BPS
    slow = {(row["figures"]["slow"], row["figures"]["host"]): row for row in findings(found, "slow host")}
    assert slow["sends", 2]["state"] == "problem" and slow["sends", 2]["found"].startswith("lab2 sends ")
    assert 0.5 < slow["sends", 2]["figures"]["value_Bps"] / SLOW_BPS < 2
    assert not {("sends", 0), ("sends", 1)} & set(slow)
    for host, ways in enumerate(links["ways"]):
        for other, way in enumerate(ways):
            if host != other:
                assert (way["interface"], way["address"]) == ("eth0", fresh.address(host))
                assert way["peer_address"] == fresh.address(other)


def test_a_slow_pair_is_named(fresh: Lab) -> None:
    """Host 0 to host 1 alone: a small bucket for that destination."""
    for command in (
        "qdisc add dev eth0 root handle 1: htb default 1 r2q 1000",
        f"class add dev eth0 parent 1: classid 1:1 htb rate {USUAL} burst 64kb cburst 64kb",
        f"class add dev eth0 parent 1: classid 1:2 htb rate {SLOW} burst 64kb cburst 64kb",
        f"filter add dev eth0 parent 1: protocol ip u32 match ip dst {fresh.address(1)}/32 flowid 1:2",
    ):
        fresh.run(0, f"tc {command}")
    for host in (1, 2):
        fresh.run(host, f"tc qdisc add dev eth0 root tbf rate {USUAL} burst 64kb latency 50ms")
    code, found = doctor(fresh, 29561, [0, 1, 2])
    slow = {tuple(row["figures"].values())[:3]: row for row in findings(found, "slow link")}
    assert code == 1 and slow["bandwidth", 0, 1]["found"].startswith("from lab0 to lab1 pass ")
    assert 0.5 < slow["bandwidth", 0, 1]["figures"]["value_Bps"] / SLOW_BPS < 2
    assert not findings(found, "slow host")


def test_an_interface_of_containers_is_named_with_a_better_one(fresh: Lab) -> None:
    """Host 1's way to the others has the name of Docker's bridge; another interface has an address as well."""
    for command in (
        "link set eth0 down",
        "link set eth0 name docker0",
        "link set docker0 up mtu 1400",
        *ANOTHER,
    ):
        fresh.run(1, f"ip {command}")
    fresh.link(1, "up")  # waits until it is reached again
    code, found = doctor(fresh, 29562, [0, 1])
    (row,) = findings(found, "interface")
    assert code == 1 and row["state"] == "problem" and row["remedies"] == ["export RINGTREE_INTERFACE=eth1"]
    expected = f"lab1 is joined to lab0 through docker0 ({fresh.address(1)}), which is for containers of one host"
    assert row["found"] == expected
    (mtu,) = findings(found, "MTU")
    assert mtu["found"] == "differs: 1400 on lab1 (docker0); 1500 on lab0 (eth0)"
    chosen = next(row for row in found["hosts"][1]["checks"] if row["name"] == "chosen")
    assert chosen["state"] == "problem" and chosen["remedies"] == ["export RINGTREE_INTERFACE=eth1"]


def test_ranks_that_do_not_reach_each_other_are_a_row_with_both_ends(fresh: Lab) -> None:
    """Rank 1 announces an interface that leads nowhere."""
    for command in ANOTHER:
        fresh.run(1, f"ip {command}")
    running = doctor_that_fails(fresh, 29563)
    (row,) = findings(running, "ranks")
    assert row["state"] == "problem" and "does not reach rank 1 at 10.98.0.2" in row["found"]
    assert "set RINGTREE_INTERFACE" in row["found"]


def doctor_that_fails(lab: Lab, port: int) -> dict[str, Any]:
    """Rank 0's result, where rank 1 announces an address that host 0 does not reach."""
    running = [
        subprocess.Popen(
            [*lab.command(rank), sys.executable, "-m", "ringtree.cli", "doctor", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ
            | {
                "RINGTREE_RANK": str(rank),
                "RINGTREE_WORLD_SIZE": "2",
                "RINGTREE_ADDRESS": f"{lab.address(0)}:{port}",
                "RINGTREE_INTERFACE": ("eth0", "eth1")[rank],
                "RINGTREE_TIMEOUT": "20",
            },
        )
        for rank in range(2)
    ]
    try:
        (shown, _), (nothing, why) = (process.communicate(timeout=60) for process in running)
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [1, 0] and not nothing
    assert why.startswith("ringtree doctor: rank 1 did not join: ") and "Traceback" not in why
    found: dict[str, Any] = json.loads(shown)
    return found


def test_it_starts_itself_on_a_list_of_hosts(fresh: Lab) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ringtree.cli", "doctor", "--json", "--seconds", "1"]
        + ["--hosts", "lab0:4,lab1", "--ssh", ssh(fresh)],
        capture_output=True,
        text=True,
        timeout=200,
    )
    found = json.loads(done.stdout)
    assert done.returncode == (1 if found["problems"] else 0), done.stderr
    assert [each["name"] for each in found["hosts"]] == ["lab0", "lab1"] and found["links"]["pair_budget_s"] == 0.5
    (network,) = findings(found, "network")
    assert network["remedies"] == [shlex.join(["ringtree", "tune", "--hosts", "lab0:4,lab1", "--ssh", ssh(fresh)])]
