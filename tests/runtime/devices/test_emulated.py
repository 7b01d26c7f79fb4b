"""The interpreter of devices' programs on this machine's processor: what the contract of all engines does not reach."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ringtree.errors import Mismatch, PeerDied, RankFailed, TimedOut
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.launch.spawn import spawn
from tests.runtime.chaos.leftovers import open_here
from tests.runtime.conftest import Pools

LANDING = ("two_shot", "ring", "halving_doubling", "double_tree", "circulant", "swing")


def _summed(comm: Communicator, algorithm: str, count: int) -> list[str]:
    """all_reduce out of and in place of memory that peers reach, with and without an end to the results."""
    x, y = comm.empty(count, np.float32), comm.empty(count, np.float32)
    begin = np.arange(count) % 7
    wanted = sum(begin + rank for rank in range(comm.size)).astype(np.float32)
    wrong = []
    for turn in range(3):
        x[:] = begin + comm.rank
        comm.all_reduce(x, out=y, algorithm=algorithm)
        wrong += [f"{turn}: out of place"] * (not np.array_equal(y, wanted))
        comm.all_reduce(x, out=x, algorithm=algorithm)
        wrong += [f"{turn}: in place"] * (not np.array_equal(x, wanted))
        mean = comm.all_reduce(y, "avg", out=y, algorithm=algorithm)
        wrong += [f"{turn}: average"] * (not np.allclose(mean, wanted))
    return wrong


def _landed(comm: Communicator, algorithm: str) -> list[str]:
    return _summed(comm, algorithm, 100) + _summed(comm, algorithm, 40_000)


@pytest.mark.parametrize("algorithm", LANDING)
@pytest.mark.parametrize("ranks", [3, 4, pytest.param(2, marks=pytest.mark.slow)])
def test_messages_land_in_memory_that_peers_reach(pools: Pools, ranks: int, algorithm: str) -> None:
    assert pools("emulated", ranks).run(_landed, algorithm) == [[]] * ranks


def test_there_may_be_more_memory_that_peers_reach_than_a_block_keeps_the_addresses_of() -> None:
    """The first call keeps the table of regions beside its registers, the last reads it where it lies."""

    def everything(comm: Communicator) -> tuple[list[str], list[str]]:
        before = _summed(comm, "two_shot", 100)
        kept = [comm.empty(1 << 16, np.float32) for _ in range(256 // comm.size)]
        return before, _summed(comm, "two_shot", 100 * len(kept))

    assert spawn(everything, 2, engine="emulated", timeout_s=30) == [([], [])] * 2


def _different(comm: Communicator) -> str:
    comm.all_reduce(np.ones(4000, np.float32))
    comm.all_reduce(np.ones(5000, np.float32))
    with pytest.raises(Mismatch) as raised:
        comm.all_reduce(np.ones(4000 + 1000 * comm.rank, np.float32))
    return str(raised.value)


def test_a_mismatch_names_both_calls() -> None:
    for text in spawn(_different, 2, engine="emulated", timeout_s=10):
        assert "count 4000" in text and "count 5000" in text and "rank 0" in text and "rank 1" in text


def _late(comm: Communicator) -> str:
    comm.all_reduce(np.ones(10))
    comm.set_timeout(0.5)
    if comm.rank:
        time.sleep(1.5)
        return ""
    with pytest.raises(TimedOut) as raised:
        comm.all_reduce(np.ones(10))
    return str(raised.value)


def test_a_wait_ends_at_its_limit_and_names_the_rank() -> None:
    text, _ = spawn(_late, 2, engine="emulated", timeout_s=10)
    assert "waited 0.5 s for rank 1 in all_reduce(sum, float64, count 10)" in text


def _dies(comm: Communicator, folder: str) -> None:
    comm.all_reduce(np.ones(10))
    if comm.rank == comm.size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    begun_s = time.monotonic()
    found: list[Any] = ["no error", 0.0]
    try:
        comm.all_reduce(np.ones(10))
    except PeerDied as error:
        found = [str(error), time.monotonic() - begun_s]
    Path(folder, str(comm.rank)).write_text(json.dumps(found))


def test_survivors_name_the_dead_within_two_seconds(tmp_path: Path) -> None:
    with pytest.raises(RankFailed):
        spawn(_dies, 3, str(tmp_path), engine="emulated", timeout_s=30)
    for rank in (0, 1):
        error, waited_s = json.loads((tmp_path / str(rank)).read_text())
        assert "rank 2" in error and waited_s < 2, (error, waited_s)


@pytest.mark.parametrize(
    ("algorithm", "count"),
    [("ring", 800_024), ("torus_3d", 80_024), pytest.param("torus", 80_024, marks=pytest.mark.slow)],
)
def test_a_slot_is_no_others_until_it_has_been_sent(algorithm: str, count: int) -> None:
    """Where peers still read all other slots, an instruction waits for them, however early the last slot was taken."""

    def act(comm: Communicator) -> int:
        found = comm.all_reduce((np.arange(count) % 4 + comm.rank).astype(np.float32), algorithm=algorithm)
        return int((found != np.arange(count) % 4 * 8 + 28).sum())

    assert spawn(act, 8, engine="emulated", timeout_s=60) == [0] * 8


def test_messages_land_at_some_peers_and_are_copied_from_others() -> None:
    """Rank 1 has arrays of its own: nothing lands there, and who sends to it lands nowhere."""

    def act(comm: Communicator) -> list[int]:
        x, y = (comm.empty(40_000, np.float64) for _ in range(2))
        if comm.rank == 1:
            x, y = np.empty(40_000), np.empty(40_000)
        wrong = []
        for turn in range(5):
            x[:] = np.arange(40_000) % 7 + comm.rank + turn
            comm.all_reduce(x, out=y, algorithm="two_shot")
            wrong += [turn] * (not np.array_equal(y, 4 * (np.arange(40_000) % 7 + turn) + 6))
        return wrong

    assert spawn(act, 4, engine="emulated", timeout_s=30) == [[]] * 4


def test_a_group_has_no_more_slots_than_a_device() -> None:
    def act(comm: Communicator) -> str:
        with pytest.raises(ValueError, match="needs 1000 staging slots of a rank; a device has 512"):
            comm.beside("many", 1000)
        return str(comm.all_reduce(np.ones(3)))

    assert spawn(act, 2, engine="emulated", timeout_s=10) == ["[2. 2. 2.]"] * 2


def _descriptors(comm: Communicator) -> int:
    """How many more there are once five groups have made calls."""
    comm.all_reduce(np.ones(3))
    before = open_here()
    groups = [comm.duplicate() for _ in range(5)]
    for group in groups:
        group.all_reduce(np.ones(3))
    return open_here() - before


def test_a_group_keeps_no_descriptor() -> None:
    assert spawn(_descriptors, 2, engine="emulated", timeout_s=60) == [0, 0]
