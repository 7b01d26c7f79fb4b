"""Collectives of uneven parts: whatever the sizes are, each element arrives where it belongs, as in plain torch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.torch_backend.conftest import Worlds

N = 3
ROWS = st.lists(st.integers(0, 4), min_size=N, max_size=N)
MATRIX = st.lists(ROWS, min_size=N, max_size=N)
WIDTH = st.sampled_from([(), (1,), (0,), (2, 3)])


@given(ROWS, WIDTH, st.booleans())
def test_rows(worlds: Worlds, rows: list[int], width: tuple[int, ...], async_op: bool) -> None:
    worlds(N).run(_rows, rows, width, async_op)


def _rows(rows: list[int], width: tuple[int, ...], async_op: bool) -> None:
    import torch

    from tests.torch_backend import moves, reductions

    shapes = [(count, *width) for count in rows]
    moves.all_gather_of(shapes, torch.float32, async_op, True)
    reductions.reduce_scatter_of(shapes, "sum", torch.float32, async_op, True)


@given(MATRIX, WIDTH, st.booleans(), st.booleans())
def test_all_to_all(
    worlds: Worlds, matrix: list[list[int]], width: tuple[int, ...], async_op: bool, listed: bool
) -> None:
    worlds(N).run(_all_to_all, matrix, width, async_op, listed)


def _all_to_all(matrix: list[list[int]], width: tuple[int, ...], async_op: bool, listed: bool) -> None:
    import torch

    from tests.torch_backend import moves

    case = moves.all_to_all_of if listed else moves.all_to_all_single_of
    case(matrix, width, torch.float32, async_op, True)


def test_only_ranks_that_asked_wait(worlds: Worlds) -> None:
    worlds(2).run(_crossed)


def _crossed() -> None:
    """Two groups' calls, begun in another order on each rank."""
    import torch
    import torch.distributed as dist

    rank, other = dist.get_rank(), dist.new_group([0, 1])
    outs = [torch.zeros(3), torch.zeros(3)]
    works = []
    for group, out in list(zip((None, other), outs, strict=True))[:: 1 - 2 * rank]:
        splits = [1, 2] if rank == 0 else [2, 1]
        works.append(dist.all_to_all_single(out, torch.full((3,), float(rank)), splits, splits, group, async_op=True))
    assert all(work.wait() for work in works)
    assert [out.sum().item() for out in outs] == [2 - rank] * 2
    dist.destroy_process_group(other)


@pytest.mark.parametrize("async_op", [False, True])
def test_ranks_that_expect_other_sizes(worlds: Worlds, async_op: bool) -> None:
    """An error on a rank at least that names what differs, and none that hangs; the group is lost."""
    world = worlds(2)
    messages = world.run(_at_odds, async_op)
    world.close()
    assert any("rows" in text or "count" in text or "bytes" in text for text in messages), messages


def _at_odds(async_op: bool) -> str:
    import torch
    import torch.distributed as dist

    rank = dist.get_rank()
    sizes = [2, 3] if rank == 0 else [2, 4]
    try:
        work = dist.all_gather([torch.zeros(size) for size in sizes], torch.zeros(sizes[rank]), async_op=async_op)
        if async_op:
            work.wait()
    except RuntimeError as failure:
        return str(failure)
    return ""
