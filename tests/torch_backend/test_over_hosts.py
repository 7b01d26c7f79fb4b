"""Process groups over the hosts of a lab: how ranks meet, which groups they make, and how hosts and ranks fail.

`tests/torch_backend/parallel` has training programs over hosts; with RINGTREE_TEST_HOSTS=2 all other tests of this room
run over hosts, too. The hosts' monotonic clocks differ, as those of machines do.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import timedelta
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.hosts.conftest import Layout, host_of, made_lab
from tests.runtime.hosts.lab import Lab
from tests.torch_backend.calls.test_collectives import MOVING, REDUCING, _moved, _reduced
from tests.torch_backend.calls.test_monitored_barrier import _meets
from tests.torch_backend.conftest import Worlds
from tests.torch_backend.faults import run, stay_away
from tests.torch_backend.test_groups import _again_and_again, _by_the_thousand, _in_a_circle
from tests.waiting import until

LAYOUTS: list[Layout] = [(2, 2), (1, 1, 1)]
QUICK = ("all_reduce", "all_to_all_single_uneven")


def _hosts() -> tuple[int, ...]:
    import ringtree.torch_backend

    return ringtree.torch_backend.communicator().hosts


@pytest.mark.parametrize("layout", LAYOUTS)
def test_ranks_know_who_shares_their_host(worlds_over_hosts: Worlds, layout: Layout) -> None:
    assert worlds_over_hosts(layout).run(_hosts) == [tuple(host_of(layout))] * sum(layout)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "collective", [pytest.param(c, marks=() if c in QUICK else pytest.mark.slow) for c in (*MOVING, *REDUCING)]
)
def test_collectives(worlds_over_hosts: Worlds, collective: str, layout: Layout) -> None:
    worlds_over_hosts(layout).run(_moved if collective in MOVING else _reduced, collective, within_s=200.0)


def _in_groups() -> None:
    """In every group of two ranks or more, all alive at once: collectives of three kinds, messages, objects."""
    import torch
    import torch.distributed as dist

    me, size = dist.get_rank(), dist.get_world_size()
    made = [(ranks, dist.new_group(list(ranks))) for n in range(2, size + 1) for ranks in combinations(range(size), n)]
    mine = [(ranks, group) for ranks, group in made if me in ranks]
    sums = [torch.full((3000,), float(me)) for _ in mine]
    works = [dist.all_reduce(x, group=group, async_op=True) for x, (_, group) in zip(sums, mine, strict=True)]
    for (ranks, group), x, work in zip(mine, sums, works, strict=True):
        at = ranks.index(me)
        after, before = ranks[(at + 1) % len(ranks)], ranks[at - 1]
        sent, got = torch.full((50_000,), float(me)), torch.empty(50_000)
        for message in dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, sent, after, group), dist.P2POp(dist.irecv, got, before, group)]
        ):
            message.wait()
        objects: list[Any] = [None] * len(ranks)
        dist.all_gather_object(objects, {"rank": me}, group=group)
        work.wait()
        dist.barrier(group)
        assert got.eq(before).all() and x.eq(sum(ranks)).all()
        assert objects == [{"rank": rank} for rank in ranks]
    dist.barrier()
    for _, group in mine:
        dist.destroy_process_group(group)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_groups_inside_hosts_and_across(worlds_over_hosts: Worlds, layout: Layout) -> None:
    worlds_over_hosts(layout).run(_in_groups)


def _beside_gloo() -> list[float]:
    import torch
    import torch.distributed as dist

    group = dist.new_group([1, 2], backend="ringtree")
    x = torch.tensor(float(dist.get_rank()))
    if dist.get_rank() in (1, 2):
        dist.all_reduce(x, group=group)
        dist.destroy_process_group(group)
    return [float(x)]


def test_a_group_of_some_ranks_beside_gloos_default_group(worlds_over_hosts: Worlds) -> None:
    assert worlds_over_hosts((1, 1, 1), "gloo").run(_beside_gloo) == [[0.0], [3.0], [3.0]]


def test_groups_leave_nothing(worlds_over_hosts: Worlds) -> None:
    for _, (descriptors, threads, _) in worlds_over_hosts((1, 1, 1)).run(_by_the_thousand, 30, 10):
        assert descriptors <= 0 and threads <= 0


@pytest.mark.parametrize("absent", [[0], [1, 3]])
def test_a_monitored_barrier_names_the_absent_ranks(worlds_over_hosts: Worlds, absent: list[int]) -> None:
    heard = worlds_over_hosts((2, 2)).run(_meets, absent, True)
    if absent == [0]:
        assert all("send/recv from rank 0: it did not come within" in text for text in heard[1:])
    else:
        assert heard[0].startswith("Ranks 1, 3 failed to pass monitoredBarrier")
        assert heard[2].endswith("ranks 1, 3 did not come") or "ranks 1, 3 did not come (" in heard[2]


def test_ranks_that_wait_in_a_cycle_get_the_cycle(worlds_over_hosts: Worlds) -> None:
    for rank, (why, total) in enumerate(worlds_over_hosts((1, 1, 1)).run(_in_a_circle)):
        one, other = (rank + 1) % 3, (rank + 2) % 3
        assert f"rank {one} did not come" in why and total == "3"
        assert f"rank {one} is in new_group({sorted((one, other))}), where it waits for rank {other}" in why, why


@pytest.mark.parametrize("way", ["file", "tcp"])
def test_the_default_group_made_again_and_again(worlds_over_hosts: Worlds, lab: Lab, tmp_path: Path, way: str) -> None:
    where = f"file://{tmp_path}/one" if way == "file" else f"tcp://{lab.address(0)}:29555"
    assert worlds_over_hosts((2, 2)).run(_again_and_again, str(tmp_path), [where] * 3) == [[16.0] * 3] * 4


def _entry_of_the_store() -> tuple[bool, str]:
    import torch.distributed as dist

    from ringtree.torch_backend.announcing import Announced

    entry = Announced.read(dist.group.WORLD.get_group_store())  # type: ignore[union-attr]
    return entry.over_hosts, entry.contact


def test_no_secret_stays_in_the_store(worlds_over_hosts: Worlds) -> None:
    assert worlds_over_hosts((2, 2)).run(_entry_of_the_store) == [(True, "")] * 4


def test_the_address_of_the_store_is_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch.distributed as dist

    from ringtree.runtime.bootstrap.network.contact import Contact
    from ringtree.torch_backend.announcing import Announced, StoreEntry
    from ringtree.torch_backend.locality import Host

    store = dist.HashStore()
    board = StoreEntry(store, Announced("key", Host.here(), over_hosts=True), lambda: None)
    monkeypatch.setenv("MASTER_ADDR", "10.0.0.7")
    for addresses, expected in (("10.1.0.7 10.0.0.7", "10.0.0.7 10.1.0.7"), ("10.1.0.7 10.2.0.7", "10.1.0.7 10.2.0.7")):
        board.announce(Contact(tuple(addresses.split()), 1, b"a secret"))
        found = board.read(0)
        assert found is not None and found.addresses == tuple(expected.split())


# -- faults: each on fresh ranks, on hosts that no other test's ranks are on


@pytest.fixture(scope="module")
def other_lab() -> Iterator[Lab]:
    """Hosts whose links are cut."""
    yield from made_lab()


def places(lab: Lab, layout: Layout) -> list[list[str]]:
    return [lab.namespaces(host) for host in host_of(layout)]


def _called(call: str) -> None:
    import torch
    import torch.distributed as dist

    x = torch.ones(100_000)
    if call == "group":
        dist.new_group([0, 1, 2])
    elif call == "async":
        dist.all_reduce(x, async_op=True).wait()
    else:
        dist.barrier() if call == "barrier" else dist.all_reduce(x)


def _is_killed(rank: int, call: str) -> None:
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    _called(call)


@pytest.mark.parametrize("call", ["all_reduce", "async", "barrier", "group"])
def test_survivors_name_a_killed_rank(other_lab: Lab, tmp_path: Path, call: str) -> None:
    stories, codes = run(3, tmp_path, _is_killed, call, namespaces=places(other_lab, (2, 1)))
    assert codes == [3, 3, -signal.SIGKILL]
    for story in stories.values():
        assert {"PeerDied", "RuntimeError"} <= set(story.kinds)
        assert "rank 2 is out of reach" in story.text or "rank 2 ended while the group" in story.text, story.text


def _calls_on(rank: int, folder: str) -> None:
    import torch
    import torch.distributed as dist

    if rank == 2:
        Path(folder, "calls").touch()
    while True:
        dist.all_reduce(torch.ones(1000))


def test_survivors_name_the_rank_of_a_host_that_is_cut_off(other_lab: Lab, tmp_path: Path) -> None:
    import threading

    def cut() -> None:
        until((tmp_path / "calls").exists)
        other_lab.link(1, "down")

    cutting = threading.Thread(target=cut)
    cutting.start()
    try:
        stories, codes = run(3, tmp_path, _calls_on, str(tmp_path), namespaces=places(other_lab, (2, 1)))
    finally:
        cutting.join()
        other_lab.link(1, "up")
    assert codes == [3, 3, 3]
    assert "rank 2 is out of reach" in stories[0].text, stories[0].text  # rank 1 may be first to see it, not why
    assert "rank 0 is out of reach" in stories[2].text or "rank 1 is out of reach" in stories[2].text


def _differs(rank: int) -> None:
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.ones(5 if rank == 2 else 8))


def test_calls_that_differ_are_both_named(other_lab: Lab, tmp_path: Path) -> None:
    stories, codes = run(3, tmp_path, _differs, namespaces=places(other_lab, (2, 1)))
    assert codes == [3, 3, 3]
    for story in stories.values():
        assert "Mismatch" in story.kinds or "Mismatch" in story.text or "rank 2 called" in story.text
        assert "count 5" in story.text and "count 8" in story.text, story.text


def _aborts(rank: int) -> None:
    import torch.distributed as dist

    store = dist.distributed_c10d._get_default_store()
    store.add("ready", 1)  # they have left their first call
    until(lambda: store.add("ready", 0) == 3)
    if rank == 2:
        dist.group.WORLD.abort()  # type: ignore[union-attr]
        stay_away()
    else:
        _called("all_reduce")


def test_abort_reaches_other_hosts(other_lab: Lab, tmp_path: Path) -> None:
    stories, codes = run(3, tmp_path, _aborts, namespaces=places(other_lab, (2, 1)))
    assert codes == [3, 3, 0]
    assert all("rank 2 aborted the group" in story.text for story in stories.values())


def _joins_in_vain(rank: int, folder: str) -> None:
    """A second group, when the link is cut; the first one notices, too."""
    import torch.distributed as dist

    from ringtree.torch_backend.creation import join

    dist.destroy_process_group()
    (Path(folder) / f"left{rank}").touch()
    until((Path(folder) / "cut").exists)
    store = dist.FileStore(f"{folder}/another", 2)
    try:
        join(store, rank, range(2), 3.0)
    finally:
        timeout = timedelta(seconds=60)
        until((Path(folder) / "mended").exists)
        store = dist.FileStore(f"{folder}/third", 2)
        dist.init_process_group("ringtree", store=store, rank=rank, world_size=2, timeout=timeout)


def test_hosts_that_do_not_reach_each_other_are_named(other_lab: Lab, tmp_path: Path) -> None:
    import threading

    def cut() -> None:
        until(lambda: all((tmp_path / f"left{rank}").exists() for rank in range(2)))
        other_lab.link(1, "down")
        (tmp_path / "cut").touch()
        until(lambda: (tmp_path / "fr").exists() or store_has_failed(tmp_path))
        other_lab.link(1, "up")
        (tmp_path / "mended").touch()

    cutting = threading.Thread(target=cut)
    cutting.start()
    stories, codes = run(2, tmp_path, _joins_in_vain, str(tmp_path), namespaces=places(other_lab, (1, 1)))
    cutting.join()
    assert codes == [3, 3]
    assert "rank 1 did not come to the job of 2 ranks within" in stories[0].text, stories[0].text
    assert "rank 1 did not reach rank 0 at the address in the group's store" in stories[1].text
    assert f"{other_lab.address(0)}:" in stories[1].text


def store_has_failed(folder: Path) -> bool:
    return (folder / "another").exists() and b"/failed" in (folder / "another").read_bytes()
