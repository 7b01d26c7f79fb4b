"""The errors of survivors when ranks fail or disagree: at once or within the timeout, with the rank's number."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from pathlib import Path

import pytest

from tests.torch_backend.faults import TIMEOUT_S, hurry, run, stay_away


def _called(call: str) -> None:
    import torch
    import torch.distributed as dist

    x = torch.ones(8)
    if call == "async":
        dist.all_reduce(x, async_op=True).wait()
    elif call == "future":
        dist.all_reduce(x, async_op=True).get_future().wait()
    elif call == "barrier":
        dist.barrier()
    elif call == "recv":
        dist.recv(x, 1)
    else:
        {"all_reduce": dist.all_reduce, "broadcast": lambda t: dist.broadcast(t, 1)}[call](x)


def _dies(rank: int, call: str) -> None:
    if rank == 1:
        os._exit(7)
    _called(call)


@pytest.mark.parametrize("call", ["all_reduce", "broadcast", "barrier", "async", "future", "recv"])
def test_a_dead_rank_is_named_at_once(tmp_path: Path, call: str) -> None:
    stories, codes = run(3, tmp_path, _dies, call)
    assert codes == [3, 7, 3]
    name = "all_reduce" if call in ("async", "future") else call
    for rank, story in stories.items():
        assert {"PeerDied", "DistBackendError"} <= set(story.kinds) or call == "future"
        assert f"rank {rank}: {name}(" in story.text and "rank 1 died" in story.text, story.text
        assert "torchfrtrace --allow-incomplete-ranks " in story.text, story.text
        assert call == "recv" or "sequence number 2 of group default_pg" in story.text


def _dies_in_a_group(rank: int) -> None:
    import torch
    import torch.distributed as dist

    group = dist.new_group([1, 2])
    if rank == 2:
        os._exit(7)
    try:
        dist.all_reduce(torch.ones(1), group=group) if rank == 1 else dist.barrier()
    except dist.DistBackendError as error:
        raise ValueError(f"died: {error.rank}") from None  # type: ignore[attr-defined]


def test_a_dead_rank_has_its_number_in_the_world_in_any_group(tmp_path: Path) -> None:
    stories, _ = run(3, tmp_path, _dies_in_a_group)
    assert {rank: story.text for rank, story in stories.items()} == {0: "died: 2", 1: "died: 2"}


def _hangs(rank: int, call: str) -> None:
    hurry()
    if rank == 1:
        stay_away()
    else:
        _called(call)


@pytest.mark.parametrize("call", ["all_reduce", "async"])
def test_a_rank_that_does_not_come_is_named_within_the_timeout(tmp_path: Path, call: str) -> None:
    stories, codes = run(3, tmp_path, _hangs, call)
    assert codes == [3, 0, 3]
    for story in stories.values():
        expected = f"waited {TIMEOUT_S:g} s for rank 1 in all_reduce"
        assert "TimedOut" in story.kinds and expected in story.text, story.text


def _differs(rank: int, how: str) -> None:
    import torch
    import torch.distributed as dist

    x = torch.ones(8)
    if how == "operation":
        dist.broadcast(x, 0) if rank == 1 else dist.all_reduce(x)
    elif how == "reduction":
        dist.all_reduce(x, dist.ReduceOp.MAX if rank == 1 else dist.ReduceOp.SUM)
    elif how == "type":
        dist.all_reduce(x.double() if rank == 1 else x)
    elif how == "root":
        dist.broadcast(x, rank)  # nobody waits in it
        dist.barrier()
    elif how == "layout":
        dist.all_reduce(x.to_sparse() if rank == 1 else x)
    else:
        dist.all_reduce(x[:5] if rank == 1 else x)


@pytest.mark.parametrize("how", ["operation", "reduction", "type", "root", "size", "layout"])
def test_calls_that_differ_are_both_named(tmp_path: Path, how: str) -> None:
    stories, codes = run(2, tmp_path, _differs, how)
    assert codes == [3, 3]
    for story in stories.values():
        assert {"Mismatch", "DistBackendError", "RuntimeError"} <= set(story.kinds)
        assert "rank 0 called" in story.text and "rank 1 called" in story.text, story.text
        assert f"sequence number {3 if how == 'root' else 2} of group" in story.text


def _goes_on(rank: int) -> None:
    import torch
    import torch.distributed as dist

    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    x = torch.ones(8)
    for _ in range(3):
        with contextlib.suppress(RuntimeError):
            dist.all_reduce(x)
    dist.broadcast(x, 0)


def test_after_a_failure_each_call_fails_at_once_with_the_reason(tmp_path: Path) -> None:
    stories, codes = run(2, tmp_path, _goes_on)
    assert codes == [3, -signal.SIGKILL]
    assert "Poisoned" in stories[0].kinds
    assert "broadcast(" in stories[0].text and "failed before (rank 1 died" in stories[0].text
    assert "destroy_process_group()" in stories[0].text


def _aborts(rank: int) -> None:
    import threading

    import torch
    import torch.distributed as dist

    if rank == 0:
        threading.Timer(0.3, dist.group.WORLD.abort).start()
        dist.all_reduce(torch.ones(8))
    stay_away()


def test_abort_from_another_thread_ends_a_wait(tmp_path: Path) -> None:
    stories, codes = run(2, tmp_path, _aborts)
    assert codes == [3, 0]
    assert "TimedOut" not in stories[0].kinds and "abort" in stories[0].text


def _leaves(rank: int) -> None:
    import torch
    import torch.distributed as dist

    if rank == 0:
        dist.all_reduce(torch.ones(8))


def test_a_rank_that_destroys_its_group_early_is_named(tmp_path: Path) -> None:
    stories, codes = run(2, tmp_path, _leaves)
    assert codes == [3, 0]
    assert "rank 1 left the group" in stories[0].text


def _sends_in_vain(rank: int) -> None:
    import torch
    import torch.distributed as dist

    hurry()
    x = torch.ones(1 << 20)
    if rank == 0:
        dist.isend(x, 1)
        dist.all_reduce(x)
    stay_away()


def test_a_group_that_failed_is_left_with_a_message_under_way(tmp_path: Path) -> None:
    stories, codes = run(2, tmp_path, _sends_in_vain)
    assert codes == [3, 0]
    assert "all_reduce(" in stories[0].text and f"waited {TIMEOUT_S:g} s for rank 1" in stories[0].text


def _makes_a_group(rank: int, end: str) -> None:
    import torch.distributed as dist

    if rank == 1:
        dist.new_group([0, 1])  # its timeout is torch's for a group, half an hour
    elif end == "dies":
        os._exit(7)
    else:
        dist.group.WORLD.abort()  # type: ignore[union-attr]


@pytest.mark.parametrize(("end", "kind"), [("dies", "PeerDied"), ("aborts", "Poisoned")])
def test_a_group_that_the_first_rank_does_not_make(tmp_path: Path, end: str, kind: str) -> None:
    stories, codes = run(2, tmp_path, _makes_a_group, end)
    assert codes == [7 if end == "dies" else 0, 3]
    assert kind in stories[1].kinds and "rank 0" in stories[1].text


def _begins_again(rank: int, folder: str) -> None:
    import torch.distributed as dist

    for turn in range(5):
        dist.destroy_process_group()
        store = dist.FileStore(f"{folder}/{turn}", 2)
        dist.init_process_group("ringtree", store=store, rank=rank, world_size=2)
    assert [thread.name for thread in threading.enumerate()].count("ringtree alarm") == 1


def test_one_thread_listens_for_failures_however_often_a_program_begins_again(tmp_path: Path) -> None:
    stories, codes = run(2, tmp_path, _begins_again, str(tmp_path))
    assert codes == [0, 0], stories[0].text
