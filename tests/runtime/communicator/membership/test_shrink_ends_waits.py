"""Who shrinks a group ends the waits of others in it and its sub-groups once a member has failed; not before."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
import pytest

from ringtree import RankFailed, spawn
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import in_threads
from tests.runtime.communicator.membership.test_shrink import FAILURES, ONES, works
from tests.runtime.conftest import available
from tests.waiting import Event

ENGINES = [pytest.param("shm", marks=pytest.mark.skipif(not available("shm"), reason="not built")), "reference"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("where", ["in the world", "in a group without the culprit"])
def test_who_waits_for_a_rank_that_shrinks_hears_of_the_failure(where: str, engine: str) -> None:
    """1 has heard of 3 in a group of the two; the others wait for 1, which makes no more calls but shrink()."""

    def act(comm: Communicator) -> Any:
        pair, others = (comm.split(0 if comm.rank in ranks else None) for ranks in ((1, 3), (0, 1, 2)))
        if comm.rank == 3:
            assert pair is not None
            with suppress(ValueError), comm, pair:
                comm.barrier()
                raise ValueError("boom")
            return None
        waits = (others if where != "in the world" else comm) if pair is None else pair
        assert waits is not None
        error = ""
        try:
            comm.barrier()  # a rank may still be here when another has heard
            waits.recv(ONES.copy(), 1)
        except FAILURES as failure:
            error = str(failure)
        after = comm.shrink()
        return after.former_ranks, works(after), error

    found = spawn(act, 4, engine=engine, threads=in_threads(engine), timeout_s=60)
    assert [(members, right) for members, right, _ in found[:3]] == [((0, 1, 2), True)] * 3
    for *_, error in found[:3]:
        causeless = engine == "reference" and error.endswith("shrinks the group that this one was made from")
        assert error.endswith("; the first cause: rank 3 failed with ValueError: boom") or causeless, error


@pytest.mark.parametrize("engine", ENGINES)
def test_a_group_of_a_closed_group_is_among_those_made_from_the_world(engine: str) -> None:
    """0 has closed the pair, and shrinks; 1 waits for 0 in a group that was made from the pair."""

    def act(comm: Communicator) -> Any:
        pair = comm.split(0 if comm.rank < 2 else None)
        later = pair and pair.duplicate()
        if comm.rank == 2:
            with suppress(ValueError), comm:
                comm.barrier()
                raise ValueError("boom")
            return None
        assert pair is not None
        assert later is not None
        if comm.rank == 0:
            pair.close()
        with suppress(*FAILURES):
            comm.barrier()  # a rank may still be here when another has heard
            if comm.rank == 1:
                later.recv(ONES.copy(), 0)
        after = comm.shrink()
        with pytest.raises(RuntimeError, match="closed"):
            later.barrier()
        return after.former_ranks, works(after)

    found = spawn(act, 3, engine=engine, threads=in_threads(engine), timeout_s=60)
    assert found[:2] == [((0, 1), True)] * 2


@pytest.mark.parametrize("engine", ENGINES)
def test_who_shrinks_a_healthy_group_disturbs_nobody(engine: str) -> None:
    """1 still receives here, and in a sub-group, when 0 has been in shrink() for a while."""

    def act(comm: Communicator) -> Any:
        part = comm.duplicate()
        if comm.rank == 0:
            comm.send(ONES, 1)
            part.send(2 * ONES, 1)
            comm.send(3 * ONES, 2)
        else:
            time.sleep(0.4)
        got = []
        if comm.rank == 1:
            got = [comm.recv(np.empty(1000), 0)[0], part.recv(np.empty(1000), 0)[0]]
            comm.send(ONES, 2)
        if comm.rank == 2:
            got = [comm.recv(np.empty(1000), source)[0] for source in (1, 0)]
        after = comm.shrink()
        return got, after.former_ranks, works(after)

    found = spawn(act, 3, engine=engine, threads=in_threads(engine), timeout_s=60)
    assert found == [(got, (0, 1, 2), True) for got in ([], [1.0, 2.0], [1.0, 3.0])]


def test_the_death_of_a_rank_that_shrinks_does_not_hide_why_it_does(tmp_path: Path) -> None:
    """0 and 2 have given up 3, and shrink; there 0 ends, which ends the wait of 1 for 3."""
    heard = Event()

    def act(comm: Communicator) -> None:
        comm.barrier()
        if comm.rank == 3:
            heard.wait()
            return
        comm.set_timeout(60 if comm.rank == 1 else 0.3)
        with pytest.raises(FAILURES) as raised:
            comm.recv(ONES.copy(), 3, tag=6)
        if comm.rank == 1:
            (tmp_path / "error").write_text(str(raised.value))
            heard.set()
            return
        if comm.rank == 0:
            Timer(0.3, os._exit, (1,)).start()
        comm.shrink(timeout_s=60)

    with pytest.raises(RankFailed):
        spawn(act, 4, timeout_s=60)
    assert re.match(
        r"rank 0 died \(process \d+ ended\) while rank "
        "(1 waited for rank 3 in recv from rank 3, tag 6|2 waited for its peers in shrink); "
        "the first cause: rank 0 waited 0.3 s for rank 3 in recv from rank 3, tag 6$",
        (tmp_path / "error").read_text(),
    )
