"""`ringtree run --hosts` on the hosts of a lab: rank 0's address, faults of the network, and what is left on a host."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ringtree.formats import chrome
from ringtree.ir.host_clocks import host_clocks, hosts_of
from ringtree.runtime.launch.hosts import placement
from ringtree.runtime.observing.hosts import listings
from ringtree.runtime.observing.listing import Listing
from ringtree.runtime.observing.worlds import LongWait
from tests.runtime.hosts.conftest import made_lab
from tests.runtime.hosts.lab import CLOCK_APART_S, Lab
from tests.runtime.hosts.launched import Launched, program, ssh
from tests.waiting import until

Launch = Callable[..., Launched]
MEET = """
import numpy, ringtree
comm = ringtree.init(timeout_s=100)
print(*comm.hosts, os.environ["RINGTREE_ADDRESS"].rpartition(":")[0], comm.all_reduce(numpy.ones(1))[0], flush=True)
"""
LONGEST_S = 100.0
"""Far longer than a job here takes, far shorter than the clocks of hosts are apart."""
GO_ON = MEET + "while True:\n    comm.all_reduce(numpy.ones(3))\n    time.sleep(0.01)\n"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Host 0 has two more networks, which no other host is in; one leads elsewhere and so is tried first."""
    for made in made_lab():
        for name, address in (("docker0", "172.17.0.1/16"), ("away", "10.1.1.1/24")):
            made.run(0, f"ip link add {name} type bridge; ip addr add {address} dev {name}; ip link set {name} up")
        made.run(0, "ip route add default dev away")
        yield made


@pytest.fixture
def launch(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Launch]:
    """launch(hosts, text): a job of that program. In the end nothing of it is on any host."""
    before = [left_on(lab, host) for host in range(lab.hosts)]
    files = tmp_path / "files"
    files.mkdir()
    monkeypatch.setenv("TMPDIR", str(files))
    started: list[Launched] = []

    def start(hosts: str, text: str, *words: str) -> Launched:
        started.append(Launched(hosts, *words, program(tmp_path, text), lab=lab))
        return started[-1]

    yield start
    for job in started:
        job.stop()
        job.end()
    assert [left_on(lab, host) for host in range(lab.hosts)] == before
    assert not list(files.iterdir())


def left_on(lab: Lab, host: int) -> str:
    """The shared memory, abstract sockets and listening ports of a host."""
    return lab.run(
        host, "ls -A /dev/shm; grep -o '@ringtree.*' /proc/net/unix; awk '$4 == \"0A\"' /proc/net/tcp*; true"
    )


def test_rank_0s_address_is_one_that_all_reach(launch: Launch) -> None:
    code, out, complaints = launch("lab0:2,lab1:1,lab2:1", MEET).end()
    assert (code, complaints) == (0, [])
    places = ("lab0:0", "lab0:1", "lab1:2", "lab2:3")
    assert sorted(out.splitlines()) == [f"[{place}] 0 0 1 2 10.99.0.1 4.0" for place in places]


def test_an_interface_can_be_chosen(launch: Launch) -> None:
    code, out, complaints = launch("lab1:1,lab2:1", MEET, "--interface", "eth0").end()
    assert (code, complaints) == (0, [])
    assert sorted(out.splitlines()) == ["[lab1:0] 0 1 10.99.0.2 2.0", "[lab2:1] 0 1 10.99.0.2 2.0"]


def test_an_address_of_the_users_stands(launch: Launch, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RINGTREE_ADDRESS", f"[{lab.address_v6(0)}]:41234")
    code, out, _ = launch("lab0:1,lab2:1", MEET).end()
    assert code == 0
    assert sorted(out.splitlines()) == [f"[lab{h}:{r}] 0 1 [fd00:99::1] 2.0" for r, h in enumerate((0, 2))]


@pytest.mark.parametrize("interface", ["docker0", "away"])
def test_hosts_without_a_common_network_are_named(launch: Launch, lab: Lab, interface: str) -> None:
    lab.run(
        1, f"ip link add {interface} type bridge; ip addr add 10.2.2.2/24 dev {interface}; ip link set {interface} up"
    )
    try:
        code, out, complaints = launch("lab0:1,lab1:1", MEET, "--interface", interface).end()
    finally:
        lab.run(1, f"ip link del {interface}")
    assert (code, out) == (1, "")
    assert len(complaints) == 1
    assert re.match(
        r"ringtree run: host lab1 reaches rank 0's host lab0 at none of its addresses: 1[\d.]+; ", complaints[0]
    )


@pytest.mark.parametrize(
    ("interface", "expected"),
    [
        ("docker0", r"'docker0'; expected an interface of this host or its address: eth0 \(10.99.0.2\).*\)"),
        ("10.99.0.1", ".*; an address is one host's, and several need a name"),
    ],
)
def test_a_host_that_lacks_the_interface_is_named(launch: Launch, interface: str, expected: str) -> None:
    code, out, complaints = launch("lab0:1,lab1:1", MEET, "--interface", interface).end()
    assert (code, out, len(complaints)) == (1, "", 1)
    assert re.fullmatch(f"ringtree run: host lab1: RINGTREE_INTERFACE is {expected}", complaints[0])


def test_a_host_that_is_cut_off_ends_the_job(launch: Launch, lab: Lab) -> None:
    job = launch("lab0:1,lab1:1,lab2:1", GO_ON)
    job.lines(3)
    try:
        lab.link(2, "down")
        code, _, complaints = job.end()
    finally:
        lab.link(2, "up")
    assert code == 1
    assert re.match(r"ringtree run: rank \d on lab\d exited with code 1; after that rank", complaints[0])


def test_a_rank_that_is_killed_leaves_nothing(launch: Launch) -> None:
    job = launch("lab0:2,lab1:2", GO_ON)
    job.lines(4)
    os.kill(job.rank(3), signal.SIGKILL)
    code, _, complaints = job.end()
    assert code == 137
    assert complaints[0].startswith("ringtree run: rank 3 on lab1 was killed by SIGKILL")


def test_ranks_have_torchs_variables(launch: Launch) -> None:
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    code, out, _ = launch("lab0:2,lab1:1", f"print(*map(os.environ.get, {names}), flush=True)").end()
    assert code == 0
    found = sorted(line.split()[1:] for line in out.splitlines())
    assert [words[:4] for words in found] == [["0", "3", "0", "2"], ["1", "3", "1", "2"], ["2", "3", "0", "1"]]
    assert {words[4] for words in found} == {"10.99.0.1"} and len({words[5] for words in found}) == 1


def test_traces_of_all_hosts_are_one(launch: Launch, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    assert launch("lab0:1,lab1:2", MEET, "--trace", str(file)).end()[0] == 0
    trace = chrome.read(file)
    assert trace.ranks == 3
    assert set(trace.rank.tolist()) == {0, 1, 2}
    assert trace.calls[0].startswith("all_reduce(float64")
    assert hosts_of(trace).tolist() == [0, 1, 1]
    (clock,) = host_clocks(trace).values()
    assert abs(clock.offset_s - CLOCK_APART_S) <= clock.error_s < 0.01  # as the lab has set it
    assert trace.makespan_s < LONGEST_S


@pytest.mark.slow
def test_clocks_are_known_by_the_launcher_where_rank_0_left_nothing(launch: Launch, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    text = MEET + "time.sleep(5)\nif rank == 0: os.kill(os.getpid(), signal.SIGKILL)\ncomm.barrier()\n"
    code, _, complaints = launch("lab0:1,lab1:1", text, "--trace", str(file)).end()
    assert code == 137 and any("has nothing of rank 0" in line for line in complaints)
    (clock,) = host_clocks(chrome.read(file)).values()
    assert abs(clock.offset_s - CLOCK_APART_S) <= clock.error_s < 0.1


def test_the_groups_of_all_hosts_are_listed(launch: Launch, lab: Lab) -> None:
    """By each host's own clock."""
    job = launch(
        "lab0:1,lab2:1",
        "import numpy, ringtree\ncomm = ringtree.init(timeout_s=100)\nprint('ready', flush=True)\n"
        "comm.recv(numpy.ones(3), 1 - comm.rank, tag=7 + comm.rank)\n",
    )
    job.lines(2)
    pids = {"lab0": job.rank(0), "lab2": job.rank(1)}
    hosts = placement.placed(placement.hosts_of("lab0,lab2"), None)

    def waits() -> dict[str, LongWait]:
        found = {}
        for host, listing in listings(hosts, ssh(lab)):
            assert isinstance(listing, Listing), listing
            for rank in (rank for world in listing.groups for rank in world.ranks):
                if rank.pid == pids[host.name] and rank.waits:
                    found[host.name] = rank.waits[0]
                    assert 0 <= (listing.now_ns - rank.waits[0].since_ns) * 1e-9 < LONGEST_S
        return found

    until(lambda: len(waits()) == 2)
    found = waits()
    assert [(found[name].peer, found[name].where[:4]) for name in pids] == [(1, "recv"), (0, "recv")]
