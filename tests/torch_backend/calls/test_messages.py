"""Messages between two ranks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.torch_backend.conftest import Worlds

DTYPES = (
    ("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16")
    + ("float32", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2")
    + ("float8_e4m3fnuz", "float8_e5m2fnuz")  # types that the engine does not know
)
SHAPES: dict[str, Any] = {
    "none": lambda x: x[:0],
    "one": lambda x: x[0, 0],
    "whole": lambda x: x,
    "columns": lambda x: x[:, ::2],
    "transposed": lambda x: x.t(),
    "rows": lambda x: x[2:5],
}


def _ring(shape: str) -> list[str]:
    """Every rank sends to the next one, and returns the types of which a wrong message came."""
    import torch
    import torch.distributed as dist

    rank, n = dist.get_rank(), dist.get_world_size()
    wrong = []
    for name in DTYPES:
        dtype = getattr(torch, name)

        def filled(r: int, dtype: Any = dtype) -> Any:
            bits = (torch.arange(48 * dtype.itemsize) * (r + 3) % 64).to(torch.uint8)
            bits = bits % 2 if dtype is torch.bool else bits
            return bits.view(dtype).reshape(6, 8)

        x, whole = filled(rank), torch.zeros(6, 8, dtype=torch.uint8).to(dtype)
        y = SHAPES[shape](whole)
        sent = dist.isend(SHAPES[shape](x), (rank + 1) % n, tag=7)
        came = dist.irecv(y, (rank - 1) % n, tag=7)
        came.wait()
        sent.wait()
        expected = torch.zeros(6, 8, dtype=torch.uint8).to(dtype)
        SHAPES[shape](expected).copy_(SHAPES[shape](filled((rank - 1) % n)))
        if bytes(whole.contiguous().view(torch.uint8).numpy()) != bytes(expected.view(torch.uint8).numpy()):
            wrong.append(name)
    return wrong


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [2, 3])
def test_every_type_and_shape(worlds: Worlds, n: int, shape: str) -> None:
    assert worlds(n).run(_ring, shape) == [[]] * n


def _tags() -> list[float]:
    """The first message is received last, and collectives go on between."""
    import torch
    import torch.distributed as dist

    n, rank = dist.get_world_size(), dist.get_rank()
    if rank == 0:
        works = [dist.isend(torch.full((50_000,), float(tag)), 1, tag=tag) for tag in (0, 1, 2**31 - 1)]
        dist.all_reduce(torch.ones(3))
        for work in works:
            work.wait()
        return []
    dist.all_reduce(torch.ones(3))
    if rank != 1:
        return []
    came = []
    for tag in (2**31 - 1, 1, 0):
        dist.recv(x := torch.zeros(50_000), 0, tag=tag)
        came.append(float(x[n]))
    return came


@pytest.mark.parametrize("n", [2, 3])
def test_tags_distinguish_messages(worlds: Worlds, n: int) -> None:
    assert worlds(n).run(_tags)[1] == [2.0**31, 1.0, 0.0]


def _any_source() -> list[int]:
    import torch
    import torch.distributed as dist

    rank, n = dist.get_rank(), dist.get_world_size()
    if rank != 0:
        dist.send(torch.full((4,), float(rank)), 0, tag=5)
        return []
    sources = []
    for k in range(1, n):
        x = torch.zeros(4)
        if k % 2:
            source = dist.recv(x, tag=5)
        else:
            work = dist.irecv(x, tag=5)
            work.wait()
            source = work._source_rank()
        assert source == int(x[0])
        sources.append(source)
    return sorted(sources)


@pytest.mark.parametrize("n", [2, 4])
def test_any_source_returns_the_source(worlds: Worlds, n: int) -> None:
    assert worlds(n).run(_any_source)[0] == list(range(1, n))


def _in_a_subgroup() -> list[float] | None:
    """Ranks are those of the world for torch's functions, whatever they are in the group."""
    import torch
    import torch.distributed as dist

    group = dist.new_group([2, 0])
    rank, came = dist.get_rank(), None
    if rank == 0:
        dist.send(torch.full((2,), 7.0), 2, group=group)
        dist.send(torch.full((2,), 8.0), group_dst=dist.get_group_rank(group, 2), group=group)
    elif rank == 2:
        x, y = torch.zeros(2), torch.zeros(2)
        assert dist.recv(x, 0, group=group) == 0
        assert dist.recv(y, group=group) == 0
        came = [float(x[0]), float(y[0])]
    if rank != 1:
        dist.destroy_process_group(group)
    return came


def test_messages_in_a_subgroup(worlds: Worlds) -> None:
    assert worlds(3).run(_in_a_subgroup) == [None, None, [7.0, 8.0]]


def _batch(nbytes: int) -> bool:
    import torch
    import torch.distributed as dist

    rank, n = dist.get_rank(), dist.get_world_size()
    x = torch.full((nbytes // 4,), float(rank))
    below, above = torch.zeros_like(x), torch.zeros_like(x)
    left, right = (rank - 1) % n, (rank + 1) % n
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, x, right, tag=1),
            dist.P2POp(dist.isend, x, left, tag=2),
            dist.P2POp(dist.irecv, above, right, tag=2),
            dist.P2POp(dist.irecv, below, left, tag=1),
        ]
    )
    for work in works:
        work.wait()
    return bool((below == left).all() and (above == right).all()) and all(w.is_success() for w in works)


@pytest.mark.parametrize("nbytes", [0, 4, 4_000_000])
@pytest.mark.parametrize("n", [2, 3])
def test_batches(worlds: Worlds, n: int, nbytes: int) -> None:
    assert worlds(n).run(_batch, nbytes) == [True] * n


def _to_itself() -> list[float]:
    import torch
    import torch.distributed as dist

    rank = dist.get_rank()
    y = torch.zeros(70_000)
    came, sent = dist.irecv(y, rank, tag=3), dist.isend(torch.full((70_000,), 1.0 + rank), rank, tag=3)
    sent.wait()
    came.wait()
    return [float(y[0]), came._source_rank()]


def test_a_message_to_itself(worlds: Worlds) -> None:
    assert worlds(2).run(_to_itself) == [[1.0, 0], [2.0, 1]]


def _objects() -> list[Any]:
    import torch.distributed as dist

    objects: list[Any] = [None, None]
    if dist.get_rank() == 0:
        dist.send_object_list([{"a": (1, 2)}, "b" * 10_000], 1)
        return []
    assert dist.recv_object_list(objects, 0) == 0
    return objects


def test_objects(worlds: Worlds) -> None:
    assert worlds(2).run(_objects)[1] == [{"a": (1, 2)}, "b" * 10_000]


def _futures() -> list[float]:
    """Messages that end in another order than they were begun, and callbacks that send further ones."""
    import torch
    import torch.distributed as dist

    rank = dist.get_rank()
    if rank == 1:
        for tag in (2, 1, 0):
            dist.send(torch.full((3,), float(tag)), 0, tag=tag)
        dist.recv(x := torch.zeros(3), 0, tag=9)
        return list(x.tolist())

    def then(future: Any) -> Any:
        [x] = future.value()
        dist.send(x, 1, tag=9)
        return x

    columns = torch.zeros(3, 3).unbind(1)  # which are written once the message has come
    futures = [dist.irecv(columns[tag], 1, tag=tag).get_future() for tag in range(3)]
    futures[2] = futures[2].then(then)
    return [float(futures[2].wait()[0]), *[float(f.wait()[0][0]) for f in futures[:2]]]


def test_futures_of_messages(worlds: Worlds) -> None:
    assert worlds(2).run(_futures) == [[2.0, 0.0, 1.0], [2.0, 2.0, 2.0]]


def _forgotten() -> bool:
    """A receive into what is not contiguous, whose Work nobody keeps, and its message is there all the same."""
    import time

    import torch
    import torch.distributed as dist

    if dist.get_rank() == 1:
        dist.send(torch.ones(4), 0)
        return True
    x = torch.zeros(4, 2)
    dist.irecv(x[:, 0], 1)
    while x[:, 0].sum() != 4:
        dist.irecv(torch.zeros(1), 0, tag=8)  # beginning a message finishes those that have ended
        dist.isend(torch.ones(1), 0, tag=8)
        time.sleep(0.001)
    return bool((x[:, 0] == 1).all())


def test_a_forgotten_receive_gets_its_message(worlds: Worlds) -> None:
    assert worlds(2).run(_forgotten) == [True, True]


def _mistakes() -> list[str]:
    import torch
    import torch.distributed as dist

    errors = []
    pg: Any = dist.group.WORLD
    for call in (
        lambda: pg.send([torch.ones(1)], 5, 0),
        lambda: pg.recv([torch.ones(1)], -3, 0),
        lambda: dist.isend(torch.ones(1), 1, tag=-4),
        lambda: pg.send([torch.ones(1), torch.ones(1)], 1, 0),
        lambda: dist.isend(torch.ones(3).to_sparse(), 1),
    ):
        try:
            call()
        except (ValueError, TypeError) as error:
            errors.append(type(error).__name__)
    return errors


def test_mistakes_raise_at_once_and_harm_nobody(worlds: Worlds) -> None:
    assert worlds(2).run(_mistakes) == [["ValueError"] * 4 + ["TypeError"]] * 2
    assert worlds(2).run(_batch, 4) == [True, True]


def _out_of_time() -> tuple[str, bool]:
    """A wait that was given less time than it takes leaves the message under way."""
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    if dist.get_rank() == 1:
        dist.recv(torch.zeros(1), 0, tag=1)
        dist.send(torch.ones(2), 0, tag=2)
        return "", True
    work = dist.irecv(x := torch.zeros(2), 1, tag=2)
    message = ""
    try:
        work.wait(timedelta(milliseconds=50))
    except RuntimeError as error:
        message = str(error)
    dist.send(torch.ones(1), 1, tag=1)
    work.wait()
    return message, bool((x == 1).all())


def test_a_wait_that_runs_out_of_time_names_ranks_and_tag(worlds: Worlds) -> None:
    (message, came), _ = worlds(2).run(_out_of_time)
    assert came
    for part in ("rank 0", "rank 1", "tag 2", "recv", "0.05 s"):
        assert part in message


def _counted() -> list[list[int]]:
    """Received from each member of a group, by its counters: (bytes, messages). The group is ranks 3, 1, 0."""
    import torch
    import torch.distributed as dist

    from ringtree.torch_backend import communicator

    group = dist.new_group(members := [3, 1, 0], sort_ranks=False)
    if dist.get_rank() not in members:
        return []
    me = dist.get_group_rank(group, dist.get_rank())
    x, y = torch.zeros(100 * (me + 1)), torch.zeros(100 * ((me - 1) % 3 + 1))
    before, after = members[(me - 1) % 3], members[(me + 1) % 3]
    dist.barrier(group)
    communicator(group).reset_counters()
    for work in dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, x, after, group), dist.P2POp(dist.irecv, y, before, group)]
    ):
        work.wait()
    if me == 0:
        dist.send(x, after, group, tag=1)
        dist.recv(y, None, group, tag=2)
    if me == 1:
        dist.recv(y, before, group, tag=1)
    if me == 2:
        dist.isend(x, after, group, tag=2).wait()
    counted: list[list[int]] = communicator(group).counters().tolist()
    dist.destroy_process_group(group)
    return counted


def test_bytes_of_a_groups_messages_are_counted(worlds: Worlds) -> None:
    assert worlds(4).run(_counted) == [
        [[0, 0], [800, 1], [0, 0]],
        [[800, 2], [0, 0], [0, 0]],
        [],
        [[0, 0], [0, 0], [2400, 2]],
    ]
