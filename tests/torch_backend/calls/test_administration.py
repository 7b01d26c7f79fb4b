"""Names, time limits and other attributes of a group; and its end, whichever ranks are still there."""

from __future__ import annotations

import copy
import os
import pickle
import threading
import time
from datetime import timedelta
from typing import Any

import pytest

from tests.torch_backend.conftest import Worlds


def _names() -> list[Any]:
    import torch
    import torch.distributed as dist

    group = dist.group.WORLD
    assert group is not None
    backend = group._get_backend(torch.device("cpu"))
    assert group.rank() == dist.get_rank() and group.size() == dist.get_world_size()
    assert dist.get_process_group_ranks(group) == list(range(dist.get_world_size()))
    assert not (backend.supports_splitting or backend.supports_coalescing or backend.supports_time_estimate)
    for device in ("meta",) if torch.cuda.is_available() else ("cuda", "meta"):
        with pytest.raises(RuntimeError, match=f"has no backend for {device}: it serves tensors of cpu"):
            group._get_backend(torch.device(device))
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="is this process's own and cannot be copied or pickled"):
            copied(group)
    before = group._get_sequence_number_for_group()
    dist.all_reduce(torch.ones(3))
    dist.barrier()
    after = group._get_sequence_number_for_group()
    sub = dist.new_group([0], group_desc="mine")
    named = [sub.group_name, sub.group_desc, repr(sub)] if dist.get_rank() == 0 else []
    dist.destroy_process_group()
    return [dist.is_initialized(), group.name(), dist.Backend.RINGTREE, after - before, *named]  # type: ignore[attr-defined]


def test_names_and_numbers_of_groups(worlds: Worlds) -> None:
    names = worlds(2).run(_again, _names)
    assert names[1] == [False, "ringtree", "ringtree", 2]
    assert names[0][:4] == names[1] and names[0][5] == "mine"
    assert names[0][6] == f"<ringtree process group {names[0][4]!r}, rank 0 of 1: ranks [0]>"


def _late_for_a_barrier(async_op: bool) -> str:
    import torch
    import torch.distributed as dist

    text = ""
    if dist.get_rank() == 0:
        with pytest.raises(RuntimeError) as raised:
            work = dist.barrier(async_op=async_op, timeout=timedelta(seconds=0.2))
            work.wait()  # type: ignore[union-attr]  # a synchronous one has raised
        text = str(raised.value)
        dist.send(torch.zeros(1), 1)
    else:
        dist.recv(torch.zeros(1), 0)
        dist.barrier(timeout=timedelta(seconds=20))
    dist.all_reduce(torch.ones(1))  # the group goes on
    return text


@pytest.mark.parametrize("async_op", [False, True])
def test_a_barrier_has_a_timeout_of_its_own(worlds: Worlds, async_op: bool) -> None:
    text, _ = worlds(2).run(_late_for_a_barrier, async_op)
    assert "barrier(), sequence number" in text and "Timed out waiting: it had not ended after 0.2 s" in text


def _again(act: Any, *args: Any) -> Any:
    """`act` in the default group, which is made anew after it: for acts that destroy it, or leave it broken."""
    import torch.distributed as dist

    _, store = dist.distributed_c10d._world.pg_map[dist.group.WORLD]
    rank, size = dist.get_rank(), dist.get_world_size()
    try:
        return act(*args)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
        timeout = timedelta(seconds=20)
        dist.init_process_group("ringtree", store=store, rank=rank, world_size=size, timeout=timeout)


def _aborted() -> str:
    """One thread waits for a call that rank 1 never makes; another aborts the group."""
    import torch
    import torch.distributed as dist

    group = dist.group.WORLD
    assert group is not None
    assert group.errored() is None  # type: ignore[attr-defined]
    store = dist.distributed_c10d._get_default_store()
    dist.barrier()
    if dist.get_rank() == 1:
        store.wait(["aborted"])
    else:
        threading.Timer(0.3, group.abort).start()
        with pytest.raises(RuntimeError, match="rank 0 aborted the group"):
            dist.all_reduce(torch.ones(4))
        store.set("aborted", "yes")
    with pytest.raises(RuntimeError, match="rank 0 aborted the group"):
        dist.barrier()
    failed = str(group.errored())  # type: ignore[attr-defined]
    dist.distributed_c10d._abort_process_group()
    return failed


def test_abort_ends_another_threads_wait(worlds: Worlds) -> None:
    for message in worlds(2).run(_again, _aborted):
        assert "rank 0 aborted the group" in message


def _with_another_timeout() -> str:
    import torch
    import torch.distributed as dist

    group = dist.new_group(timeout=timedelta(seconds=15))
    group.set_timeout(timedelta(seconds=0.3))
    try:
        if dist.get_rank() == 0:
            dist.all_reduce(torch.ones(4), group=group)
        dist.barrier()
        return ""
    except RuntimeError as error:
        dist.barrier()
        return str(error)
    finally:
        dist.destroy_process_group(group)


def test_the_timeout_set_holds(worlds: Worlds) -> None:
    messages = worlds(2).run(_with_another_timeout)
    assert "rank 0 waited 0.3 s for rank 1" in messages[0] and messages[1] == ""


def _destroyed(how: str) -> None:
    """The default group, in which something is not as it should be."""
    import torch
    import torch.distributed as dist

    rank = dist.get_rank()
    x = torch.ones(4)
    if how == "pending everywhere":
        dist.all_reduce(x, async_op=True)
    elif how == "peer has left" and rank == 1:
        time.sleep(0.5)
    elif how == "failed":
        with pytest.raises(RuntimeError):
            dist.all_reduce(torch.ones(4 + rank))
    elif how == "message under way" and rank == 0:
        dist.irecv(x, 1)
    dist.destroy_process_group()
    if how == "pending everywhere":
        assert x.tolist() == [2.0] * 4


@pytest.mark.parametrize("how", ["nothing", "pending everywhere", "message under way", "peer has left", "failed"])
def test_destroying_never_hangs(worlds: Worlds, how: str) -> None:
    worlds(2).run(_again, _destroyed, how)


def _forked() -> str:
    import torch
    import torch.distributed as dist

    mine, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            dist.all_reduce(torch.ones(2))
        except BaseException as error:  # noqa: BLE001  # the parent looks at it
            os.write(theirs, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    message = os.read(mine, 4096).decode()
    os.close(mine)
    os.close(theirs)
    x = torch.ones(2)
    dist.all_reduce(x)
    assert x.tolist() == [2.0, 2.0]
    return message


def test_a_forked_child_gets_the_error_that_it_is_no_rank(worlds: Worlds) -> None:
    for rank, message in enumerate(worlds(2).run(_forked)):
        assert f"is a fork of rank {rank} and cannot use its communicator" in message


def _torchft(port: str) -> list[float]:
    """A group that loses a rank and gets it back, as torchft has it."""
    import torch
    import torch.distributed as dist

    rank = dist.get_rank()
    store = dist.TCPStore("localhost", int(port), is_master=rank == 0, wait_for_workers=False, use_libuv=False)
    group = dist.new_group()
    sums = []
    for quorum, ranks in enumerate([(0, 1, 2), (0, 2), (2, 1, 0)]):
        if rank in ranks:
            at = f"localhost:{port}/quorum{quorum}"
            group.configure(at, f"replica {rank}", ranks.index(rank), len(ranks), quorum)  # type: ignore[attr-defined]
            x = torch.full((2,), float(rank))
            group.allreduce([x], dist.AllreduceOptions()).wait()
            assert group.errored() is None and group.size() == len(ranks)  # type: ignore[attr-defined]
            sums.append(float(x[0]))
        dist.barrier()
        group.abort()
        dist.barrier()
    assert "aborted the group" in str(group.errored())  # type: ignore[attr-defined]
    dist.destroy_process_group(group)
    del store
    return sums


def test_torchfts_five(worlds: Worlds) -> None:
    from tests.torch_backend.test_creation import _free_port

    assert worlds(3).run(_torchft, _free_port()) == [[3.0, 2.0, 3.0], [3.0, 3.0], [3.0, 2.0, 3.0]]
