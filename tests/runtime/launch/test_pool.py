"""What a Pool's ranks are sent, and cannot read."""

from __future__ import annotations

import copy
import os
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest

from ringtree.errors import RankFailed
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.launch.spawn import Pool


def total(comm: Communicator, x: int) -> int:
    return int(comm.all_reduce(x))


def test_what_cannot_be_sent_leaves_a_pool_as_it_is() -> None:
    pytest.importorskip("ringtree._native")
    with Pool(2) as pool:
        with pytest.raises(pickle.PicklingError, match=r"expected a module's function, .* or a Pool with threads=True"):
            pool.run(lambda comm: 0)
        with pytest.raises(TypeError, match=r"run\(None, ...\): expected a function that takes a communicator"):
            pool.run(None)  # type: ignore[arg-type]
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="a Pool is this process's own and cannot be copied or pickled"):
                copied(pool)
        assert pool.run(total, 5) == [10, 10]


class Unreadable:
    """An argument whose unpickling fails: on all ranks, or on the named process alone."""

    def __init__(self, pid: int = 0) -> None:
        self.pid = pid

    def __reduce__(self) -> Any:
        return unread, (self.pid,)


def unread(pid: int) -> int:
    if pid in (0, os.getpid()):
        raise LookupError("not here")
    return pid


def own_pid(comm: Communicator) -> int:
    return os.getpid()


def test_a_function_that_was_defined_after_a_pool_is_refused_and_the_pool_lives_on(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ringtree._native")

    def later(comm: Communicator) -> int:
        return comm.rank

    later.__qualname__ = "later"
    with Pool(2) as pool:
        monkeypatch.setitem(globals(), "later", later)
        with pytest.raises(pickle.UnpicklingError, match=r"of later: AttributeError: .* after all definitions"):
            pool.run(later)
        with pytest.raises(pickle.UnpicklingError, match="the call of total: LookupError: not here") as caught:
            pool.run(total, Unreadable())
        assert isinstance(caught.value.__cause__, LookupError)
        assert pool.run(total, 5) == [10, 10]
    assert capfd.readouterr().err == ""


def test_a_function_with_other_code_by_now_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a notebook's cell that was changed after its Pool was made."""
    pytest.importorskip("ringtree._native")
    space: dict[str, Any] = {"__name__": __name__}

    def defined(text: str) -> Callable[..., Any]:
        exec(text, space)
        monkeypatch.setitem(globals(), "cell", space["cell"])
        return cast("Callable[..., Any]", space["cell"])

    kept = "def cell(comm):\n    return [comm.rank + n for n in (1, 2) if n in {1, 2}]"
    cell = defined(kept)
    with Pool(2) as pool:
        assert pool.run(cell) == pool.run(defined("\n\n" + kept)) == [[1, 2], [2, 3]]
        for changed in ("(1, 2)", "{1, 2}"), ("n in (1, 2)", "n in (1, 3)"), ("rank", "size"):
            with pytest.raises(
                pickle.UnpicklingError, match=r"of cell: .* has changed since; they have what was there"
            ):
                pool.run(defined(kept.replace(*changed)))
            with pytest.raises(pickle.UnpicklingError, match=r"of partial: .* its code has changed since"):
                pool.run(partial(space["cell"]))
        assert pool.run(defined(kept)) == [[1, 2], [2, 3]]


def test_a_call_that_one_rank_alone_cannot_read_ends_a_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ringtree._native")
    monkeypatch.setattr("ringtree.runtime.launch.spawn.GRACE_S", 0.2)
    with Pool(2) as pool:
        pid = pool.run(own_pid)[1]
        with pytest.raises(RankFailed, match="rank 1 of 2 failed: LookupError: not here"):
            pool.run(total, Unreadable(pid))
        assert not pool.alive
