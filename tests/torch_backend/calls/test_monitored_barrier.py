"""The barrier that names the ranks that did not come."""

from __future__ import annotations

from tests.torch_backend.conftest import Worlds

LIMIT_S = 1.5
"""For all who come at once to meet on a busy machine."""


def _meets(absent: list[int], wait_all_ranks: bool) -> str:
    """All come, then all but `absent`, then all again: the group goes on, and no call takes what is left."""
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    from ringtree.torch_backend import monitored_barrier

    monitored_barrier(timeout=timedelta(seconds=60))
    message = ""
    if dist.get_rank() not in absent:
        try:
            monitored_barrier(timeout=timedelta(seconds=LIMIT_S), wait_all_ranks=wait_all_ranks)
        except RuntimeError as error:
            assert isinstance(error, dist.DistBackendError)
            message = str(error)
    n = dist.get_world_size()
    dist.all_to_all([torch.zeros(3) for _ in range(n)], [torch.ones(3) for _ in range(n)])
    monitored_barrier(timeout=timedelta(seconds=60))
    return message


def test_every_present_rank_gets_the_absent_ones(worlds: Worlds) -> None:
    heard = worlds(4).run(_meets, [1, 3], True)
    assert heard[0].startswith("Ranks 1, 3 failed to pass monitoredBarrier in 1500 ms")
    expected = (
        "Rank 2 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0"
    )
    assert heard[2].startswith(expected + ": ranks 1, 3 did not come")


def test_the_first_one_is_named_first(worlds: Worlds) -> None:
    heard = worlds(4).run(_meets, [1, 3], False)
    assert heard[0].startswith("Rank 1 failed to pass monitoredBarrier in 1500 ms, nor did rank 3")


def test_where_the_first_rank_does_not_come(worlds: Worlds) -> None:
    heard = worlds(4).run(_meets, [0], False)
    for rank in (1, 2, 3):
        assert f"Rank {rank} successfully reached monitoredBarrier" in heard[rank]
        assert "send/recv from rank 0: it did not come within 1.5 s" in heard[rank]


def _alone() -> str:
    import torch.distributed as dist

    try:
        if dist.get_rank() == 0:
            dist.group.WORLD.monitored_barrier(0.0)
    except RuntimeError as error:
        return str(error)
    return ""


def test_without_any_time(worlds: Worlds) -> None:
    assert worlds(2).run(_alone)[0].startswith("Rank 0 timed out in monitoredBarrier after 0 ms: rank 1 had not come")
