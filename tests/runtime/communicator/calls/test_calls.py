"""Which algorithm runs and why, and whose schedules are run at all."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ringtree import Mismatch, spawn
from ringtree.algorithms import build, pairs
from ringtree.ir.schedule import Block, Buffer, Schedule, Transfers
from ringtree.ir.spec import ScheduleError
from ringtree.runtime.communicator.calls.binding import slots_needed
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import in_threads
from ringtree.verify import ProofError
from tests.runtime.conftest import Pools


def execute_all(comm: Communicator) -> None:
    """Every registered schedule by execute(), which goes through the same conventions."""
    n, me = comm.size, comm.rank
    x = np.arange(4.0 * n) + me
    for algorithm, collective in pairs():
        schedule = build(algorithm, collective, n)
        for _ in range(2):
            if collective == "scatter":
                got = comm.execute(schedule, x, out=np.empty(4))
                assert np.array_equal(got, np.arange(4.0 * n)[4 * me : 4 * me + 4])
            elif collective == "broadcast":
                y = x.copy()
                assert comm.execute(schedule, y) is y
                assert np.array_equal(y, np.arange(4.0 * n))
            else:
                got = comm.execute(schedule, x)
                want = getattr(comm, collective)(*([] if collective == "barrier" else [x]))
                assert (got is None and want is None) or np.array_equal(got, want), (algorithm, collective)


def test_any_schedule_runs_as_its_collective(pools: Pools, engine: str) -> None:
    for ranks in (1, 3):
        pools(engine, ranks).run(execute_all)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 5, 8])
def test_any_schedule_runs_over_more_ranks(pools: Pools, engine: str, ranks: int) -> None:
    pools(engine, ranks).run(execute_all)


def lossy(ranks: int) -> Schedule:
    """A ring that forgets its last round."""
    ring = build("ring", "all_reduce", ranks)
    return replace(ring, name="lossy", blocks=(*ring.blocks[:-1], replace(ring.blocks[-1], times=ranks - 2)))


def refused(comm: Communicator) -> list[str]:
    messages = []
    schedule = lossy(comm.size)
    x = np.ones(comm.size * 3)
    strange = replace(schedule, name="strange", blocks=(Block(schedule.blocks[0].rows, 0),))
    for bad in (schedule, build("ring", "all_reduce", comm.size + 1), strange):
        try:
            comm.execute(bad, x)
        except (ProofError, ScheduleError, ValueError) as error:
            messages.append(f"{type(error).__name__}: {error}")
    for strange_call in (
        lambda: comm.all_reduce(x, algorithm=schedule),
        lambda: comm.all_to_all(x, algorithm=build("ring", "all_reduce", comm.size)),
        lambda: comm.reduce(x, root=1, algorithm=build("chain", "reduce", comm.size, 2)),
    ):
        try:
            strange_call()
        except (ProofError, ValueError) as error:
            messages.append(str(error))
    assert comm.execute(schedule, x, unproved_ok=True).shape == x.shape
    assert np.array_equal(comm.all_reduce(x, algorithm=build("ring", "all_reduce", comm.size)), x * comm.size)
    try:
        comm.execute(schedule, x)
    except ProofError as error:
        messages.append(str(error))
    comm.barrier()
    return messages


def test_unproved_schedules_are_refused_unless_asked(pools: Pools, engine: str) -> None:
    for unproved, size, strange, given, other, root, again in pools(engine, 3).run(refused):
        assert given.startswith("lossy")
        assert other == "ring is for all_reduce, not for all_to_all"
        assert root == "chain is for reduce with root 2, not for reduce with root 1"
        assert again.startswith("lossy")
        assert unproved.startswith("ProofError: lossy")
        assert "is for 4 ranks; this group has 3" in size
        assert strange.startswith("ScheduleError")


def everything_at_once(ranks: int, chunks: int) -> Schedule:
    """An all_to_all in one round, each message cut into chunks: every rank sends all it has before it receives."""
    source, target, piece = (a.reshape(-1) for a in np.mgrid[:ranks, :ranks, :chunks])
    rows = Transfers.of(
        source,
        target,
        target * chunks + piece,
        to=source * chunks + piece,
        source_buffer=Buffer.INPUT,
        target_buffer=Buffer.OUTPUT,
    )
    return Schedule("at_once", "all_to_all", ranks, ranks * chunks, (Block(rows),))


def greedy(comm: Communicator) -> list[int]:
    n = comm.size
    schedule = everything_at_once(n, 9)
    assert slots_needed(schedule) == 9 * (n - 1) > comm._calls._joined.slots
    x = np.arange(18 * n) + 1000 * comm.rank
    comm.reset_counters()
    pending = comm.all_reduce(x, async_op=True)
    for _ in range(3):
        assert np.array_equal(comm.execute(schedule, x), comm.all_to_all(x))
        assert pending.done()
    received: list[int] = comm.counters()[:, 0].tolist()
    return received


def test_a_schedule_that_needs_more_slots_gets_them(pools: Pools, engine: str) -> None:
    for rank, received in enumerate(pools(engine, 3).run(greedy)):
        assert all((nbytes > 0) == (peer != rank) for peer, nbytes in enumerate(received))
        assert sum(received) >= 6 * 2 * 18 * 8  # three times by each way, less one's own block


def greedy_alone(comm: Communicator) -> str:
    x = np.arange(18 * comm.size)
    try:
        comm.execute(everything_at_once(comm.size, 9), x) if comm.rank == 1 else comm.all_to_all(x)
    except Mismatch as error:
        return str(error)
    return "nothing"


def test_a_rank_that_alone_needs_more_slots_is_named(engine: str) -> None:
    for message in spawn(greedy_alone, 3, engine=engine, threads=in_threads(engine), timeout_s=60):
        assert re.search(r"rank 1( called)? all_to_all\(int64, count 54\)", message), message


def test_a_schedule_is_proved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    proved = []
    monkeypatch.setattr("ringtree.verify.prove", proved.append)

    def rank(comm: Communicator) -> None:
        schedule = build("ring", "all_reduce", 1)
        for _ in range(3):
            comm.execute(schedule, np.ones(4))

    spawn(rank, 1, engine="reference", threads=True)
    assert len(proved) == 1


def chosen(comm: Communicator, **given: Any) -> tuple[str, str, str]:
    bound = comm.chosen("all_reduce", 1000, **given)
    return bound.part.program.name, bound.why, bound.part.program.digest()


def test_a_call_reports_its_choice(pools: Pools, engine: str) -> None:
    pool = pools(engine, 4)
    assert {name for name, _, _ in pool.run(chosen)} == {"one_shot"}
    ring = pool.run(forced_chosen)
    assert {name for name, _, _ in ring} == {"ring"}
    assert {why for _, why, _ in ring} == {"the caller asked for it"}
    assert len({digest for _, _, digest in ring}) == 4  # each rank's own program


def misasked(comm: Communicator) -> None:
    count: Any
    for count, kind, expected in (
        (1.5, TypeError, "count is a float; expected a whole number"),
        (-1, ValueError, "count is -1; expected at least 0 elements"),
    ):
        with pytest.raises(kind, match=expected):
            comm.chosen("all_reduce", count)
    with pytest.raises(TypeError, match="dtype is 'nope'; expected one of bool, int8"):
        comm.chosen("all_reduce", 3, "nope")
    x, out = np.full(3, comm.rank), np.zeros(3, int)
    with pytest.raises(
        TypeError, match="out is given to a broadcast, which fills x on every rank; expected none, or x"
    ):
        comm.execute(build("chain", "broadcast", 2), x, out=out)
    assert comm.execute(build("chain", "broadcast", 2), x, out=x) is x


def test_mistakes_name_the_argument(pools: Pools, engine: str) -> None:
    pools(engine, 2).run(misasked)


def forced_chosen(comm: Communicator) -> tuple[str, str, str]:
    return chosen(comm, algorithm="ring")


def one_call(comm: Communicator) -> str:
    for _ in range(3):
        comm.all_reduce(np.ones(5, np.float32))
        comm.barrier()
    return comm.chosen("all_reduce", 5).part.program.name


def test_the_environment_forces_an_algorithm_where_it_serves(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    monkeypatch.setenv("RINGTREE_ALGORITHM", "double_tree")  # which has no barrier
    algorithms = spawn(one_call, 3, engine=engine, threads=in_threads(engine))
    assert algorithms == ["double_tree"] * 3


def test_of_several_forced_algorithms_each_serves_its_collectives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RINGTREE_ALGORITHM", "pairwise,two_shot,ring")  # the first has no all_reduce
    assert spawn(one_call, 2, engine="reference", threads=True) == ["two_shot"] * 2


def why_a_barrier(comm: Communicator) -> str:
    return comm.chosen("barrier", 1, np.int32).why


def test_the_choice_reports_a_forced_algorithm_that_does_not_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RINGTREE_ALGORITHM", "double_tree")
    (why,) = spawn(why_a_barrier, 1, engine="reference", threads=True)
    assert why.endswith("(RINGTREE_ALGORITHM, double_tree, does not serve here)")


def test_an_unknown_forced_algorithm_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RINGTREE_ALGORITHM", "magic")
    with pytest.raises(Exception, match="RINGTREE_ALGORITHM is 'magic': no algorithm 'magic': expected one of ring"):
        spawn(one_call, 1, engine="reference", threads=True)


def test_debug_prints_topology_and_each_choice_once(
    monkeypatch: pytest.MonkeyPatch, engine: str, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RINGTREE_DEBUG", "info")
    spawn(one_call, 3, engine=engine, threads=in_threads(engine))
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("ringtree: ")]
    assert len(lines) == 3
    assert lines[0].startswith("ringtree: 3 ranks (0, 1, 2) on one machine, ")
    assert f"engine {engine}" in lines[0]
    assert lines[1].startswith("ringtree: all_reduce of 20 bytes (float32) over 3 ranks: one_shot, program ")
    assert ", because " in lines[1]
    assert lines[2].startswith("ringtree: barrier of ")


def started_again(comm: Communicator) -> None:
    """The first call of a kind teaches the engine; later ones are started by addresses, with the same result."""
    made = comm._calls._make
    slow: list[object] = []
    comm._calls._make = lambda *given: slow.append(given) or made(*given)  # type: ignore[method-assign,func-returns-value]
    works = []
    for turn in range(4):
        x = np.full(1000, comm.rank + turn, np.float64)
        works += [comm.all_reduce(x, async_op=True), comm.reduce(x, root=1 % comm.size, async_op=True)]
        works += [comm.all_gather(x, async_op=True), comm.broadcast(x.copy(), async_op=True)]
        del x  # a call keeps its arrays
    total = sum(range(comm.size))
    for turn in range(4):
        summed, at_root, gathered, from_0 = [work.result() for work in works[4 * turn : 4 * turn + 4]]
        assert (summed == total + comm.size * turn).all() and (from_0 == turn).all()
        assert (at_root is None) if comm.rank != 1 % comm.size else (at_root == summed).all()
        assert (gathered == np.arange(comm.size)[:, None] + turn).all()
    assert len(slow) <= 5  # one of each kind; x and out may be the same array, or not, at the root's broadcast
    comm._calls._make = made  # type: ignore[method-assign]


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_call_is_started_by_addresses_the_second_time(pools: Pools, engine: str, ranks: int) -> None:
    pools(engine, ranks).run(started_again)
