"""Which addresses ranks of several hosts are reached at: IPv6, wrong interfaces, and errors that name both ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ringtree
from tests.runtime.hosts.conftest import made_lab
from tests.runtime.hosts.lab import Lab
from tests.runtime.hosts.started import PATIENCE_S, Started, joined, variables_of
from tests.waiting import until


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Host 1 has an address that it reaches host 0 from, and host 2 does not reach: traffic to it is lost there."""
    for made in made_lab():
        made.run(1, "ip addr add 10.77.0.2/24 dev eth0")
        made.run(0, "ip addr add 10.77.0.1/24 dev eth0")
        yield made


def together(started: Started, lab: Lab, port: int, *own: dict[str, object]) -> list[str]:
    """Rank r on host r."""
    for rank, variables in enumerate(own):
        started.start(joined, lab, rank, **variables_of(lab, port, rank, len(own)) | variables)
    return started.finish()


def test_ranks_meet_at_an_ipv6_address(started: Started, lab: Lab, ports: Iterator[int]) -> None:
    if "fd00:99::1" not in lab.run(0, "ip -6 addr"):
        pytest.skip("this kernel has no IPv6")
    port = next(ports)
    found = together(started, lab, port, *[{"ADDRESS": f"[{lab.address_v6(0)}]:{port}"}] * 2)
    assert found == [f"rank {rank} of 2 hosts (0, 1) total 3" for rank in range(2)]


def test_an_ipv6_address_is_shown_in_brackets(started: Started, lab: Lab) -> None:
    def briefly() -> str:
        return str(ringtree.init(timeout_s=0.3).size)

    variables = variables_of(lab, 1, 1, 2) | {"ADDRESS": f"[{lab.address_v6(0)}]:29399"}
    started.start(briefly, lab, 1, **variables)
    assert f"at RINGTREE_ADDRESS=[{lab.address_v6(0)}]:29399 within 0.3 s" in started.finish()[0]


def test_a_wrong_interface_is_named_with_both_ends(started: Started, lab: Lab, ports: Iterator[int]) -> None:
    """Rank 1 reaches rank 0 over a network that rank 2 is not in."""
    port = next(ports)
    lab.run(1, "ip route add 10.99.0.1/32 dev eth0 src 10.77.0.2")
    try:
        found = together(started, lab, port, {}, {}, {})
        wanted = f"rank 2 at {lab.address(2)} (eth0) does not reach rank 1 at 10.77.0.2:"
        for text in found:
            assert wanted in text and " (eth0): " in text and text == found[0], found
            assert "set RINGTREE_INTERFACE on rank 1's host" in text, found
        started.stop()
        again = Started()
        try:
            found = together(again, lab, next(ports), {}, {"INTERFACE": lab.address(1)}, {})
        finally:
            again.stop()
    finally:
        lab.run(1, "ip route del 10.99.0.1/32")
    assert found == [f"rank {rank} of 3 hosts (0, 1, 2) total 6" for rank in range(3)]


def test_a_loopback_address_is_named_to_ranks_elsewhere(started: Started, lab: Lab, ports: Iterator[int]) -> None:
    def briefly() -> str:
        return str(ringtree.init(timeout_s=1.0).size)

    port = next(ports)
    for rank in range(2):
        variables = variables_of(lab, port, rank, 2) | {"ADDRESS": f"127.0.0.1:{port}"}
        started.start(briefly, lab, rank, **variables)
    here, elsewhere = started.finish()
    assert "rank 1 did not come" in here and f"do not reach RINGTREE_ADDRESS=127.0.0.1:{port}, an address of" in here
    assert "An address of the loopback interface reaches this host only: where rank 0 is on another" in elsewhere


def test_a_loopback_interface_is_named_to_ranks_elsewhere(started: Started, lab: Lab, ports: Iterator[int]) -> None:
    for text in together(started, lab, next(ports), {}, {"INTERFACE": "lo"}):
        assert "does not reach rank 1 at 127.0.0.1:" in text and "That is the loopback interface" in text


def forks_and_both_join() -> str:
    """A world of the ranks, one of their forked children, and the ranks' again."""
    with ringtree.init(timeout_s=PATIENCE_S) as comm:
        children = Started()
        child = children.start_here(joined)
        first = float(comm.all_reduce(np.ones(1))[0])
        theirs = children.finish(child)[0]
        children.stop()
        with ringtree.init(timeout_s=PATIENCE_S) as again:
            second = float(again.all_reduce(np.ones(1))[0])
        comm.barrier()
        return f"{first:g} {second:g} {theirs}"


@pytest.mark.parametrize("way", ["address", "file"])
def test_forked_children_make_a_world_of_their_own(
    started: Started, lab: Lab, ports: Iterator[int], tmp_path: Path, way: str
) -> None:
    port = next(ports)
    own = {"ADDRESS": f"file://{tmp_path}/meet"} if way == "file" else {}
    for rank in range(2):
        started.start(forks_and_both_join, lab, rank, **variables_of(lab, port, rank, 2) | own)
    assert started.finish() == [f"2 2 rank {rank} of 2 hosts (0, 1) total 3" for rank in range(2)]


def group_after_rank_0_ended(folder: Path) -> str:
    comm = ringtree.init(timeout_s=PATIENCE_S)
    others = comm.group([1, 2]) if comm.rank else None
    comm.barrier()
    if others is None:
        return "ended"
    while True:
        try:
            others.duplicate().close()  # as long as rank 0 lives
        except RuntimeError as error:
            (folder / f"{comm.rank}").touch()
            until(lambda: len(list(folder.iterdir())) == 2)  # or the other would find this rank ended, too
            return f"{type(error).__name__}: {error}"


def test_a_group_after_rank_0_ended_is_refused_at_once(
    started: Started, lab: Lab, ports: Iterator[int], tmp_path: Path
) -> None:
    port = next(ports)
    for rank in range(3):
        started.start(lambda: group_after_rank_0_ended(tmp_path), lab, rank, **variables_of(lab, port, rank, 3))
    found = started.finish()
    assert found[0] == "ended"
    for text in found[1:]:
        assert text.startswith("PeerDied: rank 0 ended while the group of 2 ranks was being set up: over"), found
