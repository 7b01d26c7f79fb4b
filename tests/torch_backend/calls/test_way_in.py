"""The way into a repeated call of torch.distributed: how few functions of ringtree's it passes, and what it keeps."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.torch_backend.conftest import Worlds
from tests.way_in import passed


def _counts() -> dict[str, tuple[int, int]]:
    """By call: the functions in Python, and all with those in C."""
    import torch
    import torch.distributed as dist

    from ringtree.torch_backend.calls import modes

    modes.entered = False  # an earlier test may have entered a mode: each call then asks for one
    modes.watch()
    n = dist.get_world_size()
    x, all_of_it = torch.ones(2 * n), torch.ones(2 * n * n)
    calls: dict[str, Callable[[], object]] = {
        "all_reduce": lambda: dist.all_reduce(x),
        "all_reduce, async": lambda: dist.all_reduce(x, async_op=True).wait(),  # type: ignore[union-attr]
        "broadcast": lambda: dist.broadcast(x, 0),
        "all_gather": lambda: dist.all_gather_into_tensor(all_of_it, x),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(x, all_of_it),
    }
    found = {}
    for name, call in calls.items():
        way = passed(call)
        found[name] = (sum(not step.startswith("C ") for step in way), len(way))
    return found


def test_a_repeated_call_passes_few_functions(worlds: Worlds) -> None:
    [found] = worlds(1).run(_counts)
    most = {
        "all_reduce": (4, 14),
        "all_reduce, async": (6, 18),
        "broadcast": (6, 14),
        "all_gather": (4, 11),
        "reduce_scatter": (5, 14),
    }
    assert {name: found[name] for name in most if found[name] > most[name]} == {}


def _kept(case: str) -> None:
    """What the recorder keeps natively is what torch says of the tensors."""
    import torch
    import torch.distributed as dist

    from ringtree.torch_backend.flight.recorder import RING

    x = {
        "matrix": lambda: torch.ones(3, 2, dtype=torch.bfloat16),
        "number": lambda: torch.tensor(1.0),
        "none": lambda: torch.empty(0, 3, dtype=torch.int64),
        "strided": lambda: torch.ones(4, 4).t()[::2],
        "seven axes": lambda: torch.ones((1,) * 7),
        "parameter": lambda: torch.nn.Parameter(torch.ones(2)),
        "a type the engine lacks": lambda: torch.zeros(2, dtype=torch.float8_e4m3fnuz),
    }[case]()
    for _ in range(2):
        dist.broadcast(x.detach(), 0)
        entry = RING[-1]
        assert entry.name == "broadcast" and entry.inputs == entry.outputs == ((x.shape, x.dtype),)
        assert isinstance(entry.inputs[0][0], torch.Size) and entry.ended_ns >= entry.begun_ns > 0
        assert entry.peer is None and entry.event is None and not entry.failed and entry.turn == entry.ticket == 0
    uneven = [torch.ones(1), torch.ones(2)]
    dist.all_reduce_coalesced(uneven)
    assert RING[-1].inputs == ((torch.Size([1]), torch.float32), (torch.Size([2]), torch.float32))
    dist.barrier()
    assert RING[-1].inputs == () and RING[-1].record == RING[-2].record + 1


@pytest.mark.parametrize(
    "case", ["matrix", "number", "none", "strided", "seven axes", "parameter", "a type the engine lacks"]
)
def test_the_recorder_keeps_shapes_and_types(worlds: Worlds, case: str) -> None:
    worlds(1).run(_kept, case)


def _repeated(rank: int) -> None:
    """Tensors that look alike to the engine and mean other numbers, in turn with plain ones."""
    import torch
    import torch.distributed as dist

    n = dist.get_world_size()
    for _ in range(3):
        plain, negated = torch.full((4,), 2.0), torch._neg_view(torch.full((4,), 2.0))
        dist.all_reduce(plain)
        dist.all_reduce(negated)
        assert plain.tolist() == [2.0 * n] * 4 and negated.tolist() == [-2.0 * n] * 4
        imaginary = torch.full((1,), 1 + 2j).conj().imag
        dist.all_reduce(imaginary)
        assert imaginary.tolist() == [-2.0 * n]
        strided = torch.zeros(4, 2)[:, 0]
        strided += rank
        dist.all_reduce(strided)
        assert strided.tolist() == [n * (n - 1) / 2] * 4
        work = dist.all_reduce(plain, async_op=True)
        assert work is not None and work.wait() and work.is_completed() and work.is_success()
        assert work.result()[0] is plain and plain.tolist() == [2.0 * n * n] * 4
        assert work.get_future().wait()[0] is plain and work.get_future() is work.get_future()


@pytest.mark.parametrize("n", [1, 2])
def test_tensors_that_show_their_memory_otherwise_are_not_taken_as_it_lies(worlds: Worlds, n: int) -> None:
    worlds(n).run(_ranked)


def _ranked() -> None:
    import torch.distributed as dist

    _repeated(dist.get_rank())


def _addressed() -> None:
    """The way of torch before 2.10, whose tensors the engine cannot read itself."""
    import torch
    import torch.distributed as dist

    import ringtree.torch_backend
    from ringtree.runtime.communicator.calls.codes import CODE
    from ringtree.torch_backend.calls.launching import ByAddress

    comm, n = ringtree.torch_backend.communicator(), dist.get_world_size()
    fast, code, x = ByAddress(comm), CODE["all_reduce"], torch.ones(5)
    comm.all_reduce(x, out=x)
    assert fast.call(code, x, x, "sum", -1) and x.tolist() == [float(n * n)] * 5
    ticket = fast.start_call(code, x, x, "sum", -1)
    assert comm.began(ticket, x, x).wait() and x.tolist() == [float(n**3)] * 5
    assert not fast.call(code, x.to(torch.float16), x, "sum", -1) and not fast.call(code, x[::2], x[::2], "sum", -1)
    assert not fast.start_call(code, x.to_sparse(), x.to_sparse(), "sum", -1)


def test_tensors_go_by_their_addresses_where_torch_does_not_let_the_engine_read_them(worlds: Worlds) -> None:
    worlds(2).run(_addressed)
