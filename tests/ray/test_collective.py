"""The backend "ringtree" of ray.util.collective: results beside numpy's and those of Ray's own Gloo, and errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.ray import members as m
from tests.ray.conftest import ROOT

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("cluster")]
Members = list[Any]
BACKENDS = ["ringtree", pytest.param("gloo", marks=pytest.mark.torch)]
KINDS = ["array", pytest.param("tensor", marks=pytest.mark.torch)]
REDUCTIONS = [(each, op) for each in (m.all_reduce, m.reduce, m.reduce_scatter) for op in m.UFUNCS]
MOVES = [(each, "SUM") for each in (m.broadcast, m.all_gather, m.messages)]


@pytest.fixture
def some(cluster: Any) -> Iterator[Callable[..., Members]]:
    """some(3): so many actors, ended after the test. `options`: Ray's."""
    import ray

    made: Members = []

    def start(number: int, registers: bool = True, **options: Any) -> Members:
        actor = ray.remote(m.Member).options(num_cpus=0.1, **options)
        made.extend(actor.remote(registers) for _ in range(number))
        return made[-number:]

    yield start
    for member in made:
        ray.kill(member)


@pytest.fixture(scope="module")
def groups(cluster: Any) -> Iterator[Callable[[str], Members]]:
    """groups("gloo"): three actors with a group of that name and backend."""
    import ray

    actor = ray.remote(m.Member).options(num_cpus=0.1, scheduling_strategy="SPREAD")
    made = [actor.remote() for _ in range(m.SIZE)]
    joined: set[str] = set()

    def get(backend: str) -> Members:
        if backend not in joined:
            joined.add(backend)
            every(made, "joins", backend, backend)
        return made

    yield get
    for member in made:
        ray.kill(member)


def every(members: Members, method: str, *args: Any) -> list[Any]:
    """Calls a method of all members with their ranks and `args`; their results."""
    import ray

    return list(ray.get([getattr(member, method).remote(rank, *args) for rank, member in enumerate(members)]))


def all_do(members: Members, *args: Any) -> list[Any]:
    """The results of a function on all members."""
    import ray

    return list(ray.get([member.does.remote(*args) for member in members]))


def errors(members: Members, *args: Any) -> list[str]:
    """As all_do, of calls that raise: their last lines."""
    import ray

    raised = []
    for reference in [member.does.remote(*args) for member in members]:
        with pytest.raises(Exception) as caught:
            ray.get(reference)
        raised.append(str(caught.value).strip().splitlines()[-1])
    return raised


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("operation", "op"), REDUCTIONS + MOVES)
def test_results_are_numpys_and_glooss(
    operation: Any, op: str, backend: str, kind: str, groups: Callable[[str], Members]
) -> None:
    for dtype in ("float32", "int64"):
        for rank, arrays in enumerate(all_do(groups(backend), m.found, operation, backend, kind, dtype, op)):
            for array, right in zip(arrays, m.expected(operation, rank, dtype, op), strict=True):
                np.testing.assert_array_equal(array, right, strict=True)


@pytest.mark.torch
def test_bfloat16(groups: Callable[[str], Members]) -> None:
    def sums(group: str) -> list[list[float]]:
        import torch
        from ray.util import collective

        x = torch.full((3,), collective.get_rank(group) + 1.0, dtype=torch.bfloat16)
        collective.allreduce(x, group)
        outs = [torch.empty_like(x) for _ in range(m.SIZE)]
        collective.allgather(outs, x, group)
        collective.reducescatter(x, outs, group)
        return [x.tolist(), outs[2].tolist()]

    assert all_do(groups("ringtree"), sums, "ringtree") == [[[18.0] * 3, [6.0] * 3]] * m.SIZE


def read_only(group: str, handed_over: Any) -> None:
    from ray.util import collective

    collective.allreduce(handed_over, group)


def strided(group: str, handed_over: Any) -> None:
    from ray.util import collective

    collective.broadcast(np.zeros(6)[::2], 2, group)


def uneven(group: str, handed_over: Any) -> None:
    from ray.util import collective

    collective.allgather([np.zeros(4), np.zeros(3), np.zeros(4)], np.zeros(4), group)


def of_another_type(group: str, handed_over: Any) -> None:
    from ray.util import collective

    collective.reducescatter(np.zeros(2), [np.zeros(2), np.zeros(2), np.zeros(2, "f4")], group)


def objects(group: str, handed_over: Any) -> None:
    from ray.util import collective

    collective.send(np.array([{}]), (collective.get_rank(group) + 1) % m.SIZE, group)


def of_two_gpus(group: str, handed_over: Any) -> None:
    from ray.util import collective

    collective.get_group_handle(group).recv([np.zeros(1)] * 2, None)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (read_only, "the array is read-only; expected an array that can be written: what Ray hands over"),
        (strided, "the array is not contiguous; expected a C-contiguous array"),
        (uneven, "array 1 to fill is float64 [3]; expected float64 [4], as the single one"),
        (of_another_type, "array 2 to reduce is float32 [2]; expected float64 [2], as the single one"),
        (objects, "element type object is not supported; expected one of bool"),
        (of_two_gpus, "got 2 arrays, one for each GPU; expected one of the CPU's"),
    ],
)
def test_a_wrong_array_is_refused_in_a_line(
    call: Callable[..., None], expected: str, groups: Callable[[str], Members]
) -> None:
    """By ranks 0 and 1: rank 2, as the root of a broadcast, does not fill its array. The group goes on."""
    import ray

    for rank, line in enumerate(errors(groups("ringtree")[:2], call, "ringtree", ray.put(np.zeros(3)))):
        assert f"rank {rank} of collective group 'ringtree': " in line and expected in line, line
    assert len(all_do(groups("ringtree"), m.hosts, "ringtree")) == m.SIZE


def at_odds(group: str) -> None:
    from ray.util import collective

    collective.allreduce(np.zeros(collective.get_rank(group) + 1), group)


def killed(group: str) -> None:
    from ray.util import collective

    if collective.get_rank(group) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    collective.barrier(group)


def test_members_at_odds_are_named(some: Callable[..., Members]) -> None:
    members = some(2)
    every(members, "joins", "ringtree", "at odds", 2)
    for line in errors(members, at_odds, "at odds"):
        assert "Mismatch: rank " in line, line
        for rank in range(2):
            assert f"rank {rank} called all_reduce(float64, sum, count {rank + 1}) as call 1" in line, line


def test_a_killed_member_is_named(some: Callable[..., Members]) -> None:
    import ray

    members = some(3)
    every(members, "joins", "ringtree", "killed")
    pid = ray.get(members[1].pid.remote())
    first, _, third = errors(members, killed, "killed")
    for line in (first, third):
        assert "PeerDied" in line and f"rank 1 died (process {pid} ended)" in line, line


def test_a_name_is_free_again_and_has_nothing_left(some: Callable[..., Members]) -> None:
    """Also where an earlier group left its address: nobody answers there."""
    import ray

    from ringtree.ray.meeting import KeyValueStore

    key = f"ringtree/{ray.get_runtime_context().namespace}/again/rank 0"
    stale = '{"addresses": ["127.0.0.1"], "port": 9, "secret": "00"}'
    KeyValueStore().set(key, stale)
    members = some(2)
    for _ in range(2):
        every(members, "joins", "ringtree", "again", 2)
        assert [total for _, total in all_do(members, m.hosts, "again")] == [3.0] * 2
        assert KeyValueStore().get(key) is None
        ray.get([member.leaves.remote("again") for member in members])


def test_a_member_that_does_not_come_is_named(some: Callable[..., Members]) -> None:
    import ray

    first, second = some(2, runtime_env={"env_vars": {"RINGTREE_TIMEOUT": "2"}})
    with pytest.raises(TimeoutError, match="rank 1 did not come to the job of 2 ranks within 2 s"):
        ray.get(first.joins.remote(0, "ringtree", "half", 2))
    with pytest.raises(TimeoutError, match="rank 1 did not reach rank 0 at Ray's store of keys within 2 s"):
        ray.get(second.joins.remote(1, "ringtree", "other half", 2))


def test_a_group_of_one_and_a_group_beside_another(some: Callable[..., Members]) -> None:
    import ray

    members = some(2)
    ray.get([member.joins.remote(0, "ringtree", f"alone {i}", 1) for i, member in enumerate(members)])
    every(members, "joins", "ringtree", "both", 2)
    every(members[::-1], "joins", "ringtree", "reversed", 2)
    assert ray.get(members[1].does.remote(m.hosts, "alone 1")) == ([0], 1.0)
    for group in ("both", "reversed"):
        assert all_do(members, m.hosts, group) == [([0, 0], 3.0)] * 2


def test_groups_that_the_driver_declares(some: Callable[..., Members]) -> None:
    from ray.util import collective

    import ringtree.ray

    ringtree.ray.register_collective_backend()
    members = some(2)
    collective.create_collective_group(members, 2, [1, 0], "ringtree", "declared")
    assert all_do(members, m.hosts, "declared") == [([0, 0], 3.0)] * 2


@pytest.mark.torch  # Ray's module imports it
def test_groups_of_rays_experimental_module(some: Callable[..., Members]) -> None:
    from ray.experimental import collective as experimental

    import ringtree.ray

    ringtree.ray.register_collective_backend()
    members = some(2)
    made = experimental.create_collective_group(members, "ringtree")
    assert all_do(members, m.hosts, made.name) == [([0, 0], 3.0)] * 2
    experimental.destroy_collective_group(made)


def test_the_example_registers_by_rays_hook(cluster: Any) -> None:
    done = subprocess.run(
        [sys.executable, "examples/ray_actors.py", "--actors", "3"],
        cwd=ROOT,
        env=os.environ | {"RAY_ADDRESS": cluster.address},
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines()[-3:] == [f"rank {rank} has 3" for rank in range(3)], done.stderr


def test_without_the_registration_ray_refuses_the_name(some: Callable[..., Members]) -> None:
    (member,) = some(1, False)
    import ray

    with pytest.raises(ValueError, match="Backend RINGTREE not registered"):
        ray.get(member.joins.remote(0, "ringtree", "unknown", 1))
