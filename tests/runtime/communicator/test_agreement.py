"""Ranks that request different groups or arrays: every rank raises the same error at once, and the group goes on."""

from __future__ import annotations

import re
import time
from contextlib import suppress

import numpy as np
import pytest

from ringtree import Mismatch, TimedOut
from ringtree.runtime.bootstrap.local import leader
from ringtree.runtime.communicator.agreement import TEXT_BYTES, agreed
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.conftest import Pools
from tests.runtime.faults.test_faults import outcomes

DIFFERENT = {
    "a duplicate, rank 1 for a split": ("duplicate()", "split(0)"),
    "a duplicate, rank 1 for a mesh of a=2": ("duplicate()", "mesh(a=2)"),
    "a mesh of a=2, rank 1 for a mesh of b=2": ("mesh(a=2)", "mesh(b=2)"),
    "a mesh of a=2, rank 1 for a mesh of a=2, b=1": ("mesh(a=2)", "mesh(a=2, b=1)"),
    "a mesh of a=2, rank 1 for a mesh of a=3": ("mesh(a=2)", "mesh(a=3)"),
    "an array of shape (2,) of float32, rank 1 for an array of shape (2,) of int32": ("empty(2)", "empty(2, 'i4')"),
    "an array of shape (2,) of float32, rank 1 for a split": ("empty(2)", "split(None)"),
}


def different(comm: Communicator) -> None:
    for request, calls in DIFFERENT.items():
        with pytest.raises(Mismatch) as caught:
            eval(f"comm.{calls[comm.rank]}")
        assert str(caught.value) == f"rank 0 asks for {request}; expected the same"
    assert comm.duplicate().all_reduce(1) == 2


def test_different_requests_raise_at_once(pools: Pools, engine: str) -> None:
    pools(engine, 2).run(different)


def test_a_group_of_a_list_that_differs_names_the_call(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "GRACE_S", 0.1)

    def act(comm: Communicator) -> None:
        comm.group([0, 1] if comm.rank else [1, 0])

    messages = [message for kind, message, _ in outcomes(engine, 2, act, timeout_s=0.5) if kind == "TimedOut"]
    assert messages  # on one of them, at least: the other may hear that this one has left
    other = r"; the first cause: they wait for each other \(rank \d waits for rank \d in group\(\[\d, \d\]\)\)"
    for message in messages:
        assert re.fullmatch(
            rf"group\(\[.*\]\): rank.* did not come .*; expected ranks .* to make it alike({other})?", message
        )


def test_a_group_that_came_too_late_can_be_tried_again(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "GRACE_S", 0.1)

    def act(comm: Communicator) -> None:
        for attempt in range(10):
            if comm.rank and attempt == 0:
                time.sleep(0.6)  # the other has given up by then, and does not turn anybody away any more
            with suppress(TimedOut):
                assert comm.group([0, 1]).all_reduce(1) == 2
                return
        raise AssertionError("they never met")

    for kind, message, _ in outcomes(engine, 2, act, timeout_s=0.3):
        assert kind == "none", message


def test_long_texts_are_compared_to_their_ends() -> None:
    text = "x" * 3 * TEXT_BYTES
    rows = {t: agreed(lambda row: row[None], "0", t)[0].tolist() for t in ("", "y", text)}
    assert list(rows.values()) == [[0, 0, 0]] * 3
    sent: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
    for t in (text + "1", text + "2"):
        agreed(lambda row: sent.append(row) or row[None], "0", t)
    with pytest.raises(Mismatch):
        agreed(lambda _: np.stack(sent), "01", text + "1")
