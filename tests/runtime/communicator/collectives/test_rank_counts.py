"""The same bits over other numbers of ranks, and sums of short floats that are rounded once."""

from __future__ import annotations

import operator
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree import balanced_sum
from ringtree.algorithms import build, serving
from ringtree.errors import Mismatch
from ringtree.plan import at_once, balanced
from ringtree.runtime.arrays import dtype_named
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.launch.spawn import spawn
from ringtree.transform import balance
from tests.runtime.conftest import Pools, available

Values = np.ndarray[Any, Any]
LABELS = ("float32", "float64", "float16", "bfloat16", "float8_e5m2", "complex64", "int16")
COUNT = 720
"""Elements of a part: a multiple of all numbers of ranks but 7, 11, 13 and 14."""


def part(number: int, label: str, count: int = COUNT) -> Values:
    """Numbers of all magnitudes, so that sums in different orders differ."""
    random = np.random.default_rng([number, count])
    values = random.normal(size=count) * 10.0 ** random.integers(-3, 3, count)
    return (values + 1j * values[::-1] if label.startswith("complex") else values).astype(dtype_named(label))


def share(parts: int, comm: Communicator, label: str, count: int = COUNT) -> Values:
    """The sum of this rank's share of the parts, which each rank but the last has as many of."""
    each = 1 << (-(-parts // comm.size) - 1).bit_length()
    mine = range(each * comm.rank, min(each * (comm.rank + 1), parts))
    return balanced_sum(part(number, label, count) for number in mine)


def reduced(comm: Communicator, parts: int, label: str, count: int) -> dict[str, set[bytes]]:
    """The bits of the sum of all parts, by each call that makes it."""
    x, n, ranks = share(parts, comm, label, count), comm.size, {"deterministic": "ranks"}
    found: dict[str, set[bytes]] = {}
    for name in (None, *balanced("all_reduce", n)):
        found[f"all_reduce by {name}"] = {comm.all_reduce(x, algorithm=name, **ranks).tobytes() for _ in range(2)}
    y = x.copy()
    comm.all_reduce(y, out=y, **ranks)
    found["in place"] = {y.tobytes()}
    found["later"] = {comm.all_reduce(x, async_op=True, **ranks).result().tobytes()}
    found["packed"] = {comm.all_reduce_coalesced([x], **ranks)[0].tobytes()}
    found["at a root"] = {
        comm.broadcast(x.copy() if (y := comm.reduce(x, root=n - 1, **ranks)) is None else y, n - 1).tobytes()
    }
    if label in ("float32", "bfloat16"):
        found["by a schedule"] = {
            comm.all_reduce(x, algorithm=balance(build("two_shot", "all_reduce", n)), **ranks).tobytes()
        }
        found["by a function"] = {comm.all_reduce(x, operator.add, **ranks).tobytes()}
    if count % n == 0:
        found["scattered"] = {comm.all_gather(comm.reduce_scatter(x, **ranks)).tobytes()}
    rows = [count // n] * (n - 1) + [count - count // n * (n - 1)]
    found["scattered unevenly"] = {comm.all_gather_v(comm.reduce_scatter_v(x, rows, **ranks), rows).tobytes()}
    last = comm.scan(x, **ranks)
    found["a prefix"] = {comm.broadcast(last, n - 1).tobytes()}
    return found


@pytest.mark.parametrize(
    ("label", "ranks"),
    [
        pytest.param(label, ranks, marks=[] if label == "float32" or ranks in (2, 8) else pytest.mark.slow)
        for ranks in (1, 2, 4, 8, 16)
        for label in LABELS
    ],
)
def test_powers_of_two_of_ranks_have_the_same_bits(pools: Pools, label: str, ranks: int) -> None:
    want = balanced_sum(part(number, label) for number in range(16)).tobytes()
    for found in pools("shm", ranks).run(reduced, 16, label, COUNT):
        assert {how for how, bits in found.items() if bits != {want}} == set()


@pytest.mark.parametrize("parts", [5, 6, 7])
def test_some_numbers_of_parts_on_fewer_ranks(pools: Pools, parts: int) -> None:
    hold_to_one_process(pools, parts)


@pytest.mark.slow
@pytest.mark.parametrize("parts", [3, *range(9, 16)])
def test_any_number_of_parts_on_fewer_ranks(pools: Pools, parts: int) -> None:
    hold_to_one_process(pools, parts)


def hold_to_one_process(pools: Pools, parts: int) -> None:
    """Where each rank but the last has the same power of two of them."""
    for label in ("float32", "bfloat16"):
        want = balanced_sum(part(number, label) for number in range(parts)).tobytes()
        for ranks in {-(-parts // each) for each in (1, 2, 4, 8, 16)}:
            for found in pools("shm", ranks).run(reduced, parts, label, COUNT):
                assert {how for how, bits in found.items() if bits != {want}} == set(), (label, ranks)


def test_long_vectors_and_the_reference_engine(pools: Pools, engine: str) -> None:
    count = 300_000 if engine == "shm" else 3_000
    want = balanced_sum(part(number, "float32", count) for number in range(8)).tobytes()
    for ranks in (2, 4):
        for found in pools(engine, ranks).run(reduced, 8, "float32", count):
            assert {how for how, bits in found.items() if bits != {want}} == set(), ranks


def test_the_order_matters(pools: Pools) -> None:
    """What is compared here would differ in another order: rank order does."""
    bits = {pools("shm", n).run(ordered)[0] for n in (2, 4, 8)}
    assert len(bits) == 3


def ordered(comm: Communicator) -> bytes:
    return bytes(comm.all_reduce(share(16, comm, "float32"), deterministic="rank_order").tobytes())


@given(st.integers(1, 70), st.integers(0, 6))
def test_sums_of_runs_of_a_power_of_two_are_nodes(parts: int, power: int) -> None:
    """By an operation that shows where it was joined."""

    def joined(a: Any, b: Any) -> Any:
        return (a, b)

    each = 1 << power
    runs = [range(start, min(start + each, parts)) for start in range(0, parts, each)]
    assert balanced_sum((balanced_sum(run, joined) for run in runs), joined) == balanced_sum(range(parts), joined)


def test_no_parts_have_no_sum() -> None:
    with pytest.raises(ValueError, match="balanced_sum of no parts: expected one at least"):
        balanced_sum([])


def trained(comm: Communicator) -> list[bytes]:
    """Losses of a line fitted by 16 samples a step, shared by the ranks."""
    random = np.random.default_rng(5)
    points = random.normal(size=(16, 9)).astype(np.float32)
    answers = (points @ np.arange(9, dtype=np.float32)).astype(np.float32)
    weights, losses = np.zeros(9, np.float32), []
    mine = range(16 // comm.size * comm.rank, 16 // comm.size * (comm.rank + 1))
    for _ in range(20):
        off = {k: (points[k] * weights).sum(dtype=np.float32) - answers[k] for k in mine}
        loss = balanced_sum(np.array([off[k] ** 2], np.float32) for k in mine)
        gradient = balanced_sum(2 * off[k] * points[k] for k in mine)
        losses.append(comm.all_reduce(loss, deterministic="ranks").tobytes())
        weights -= np.float32(0.01) * comm.all_reduce(gradient, deterministic="ranks")
    return losses


def test_training_on_other_numbers_of_ranks_has_the_same_losses(pools: Pools) -> None:
    runs = [losses for n in (1, 2, 4, 8, 16) for losses in pools("shm", n).run(trained)]
    assert all(losses == runs[0] for losses in runs) and len(set(runs[0])) > 10


def refusals(comm: Communicator) -> list[str]:
    x, texts = np.ones(comm.size, np.float16), []
    for given_ in (
        {"algorithm": "ring", "deterministic": "ranks"},
        {"algorithm": build("two_shot", "all_reduce", comm.size), "deterministic": "ranks"},
        {"deterministic": "ranks", "accumulate": "float32"},
        {"algorithm": "ring", "accumulate": "float32"},
        {"accumulate": "float64"},
        {"deterministic": "rank"},
    ):
        with pytest.raises(ValueError) as refused:
            comm.all_reduce(x, **given_)
        texts.append(str(refused.value))
    assert comm.all_reduce(x).tolist() == [comm.size] * comm.size, "the group goes on"
    return texts


def test_what_cannot_be_kept_is_refused(pools: Pools, engine: str) -> None:
    ring, two_shot, both, rounds, type_, word = pools(engine, 3).run(refusals)[1]
    assert ring == (
        "ring does not add up all_reduce over 3 ranks in a balanced tree: expected one of one_shot, two_shot, "
        "locality_tree, parameter_server"
    )
    assert two_shot.startswith("two_shot does not add up all_reduce in a balanced tree: deterministic='ranks' expects")
    assert both.startswith("deterministic='ranks' rounds each partial sum to float16, and accumulate='float32' none")
    assert rounds.startswith("ring does not reduce all_reduce in rank order at once")
    assert type_ == "accumulate='float64': expected None or 'float32'"
    assert word == "deterministic='rank': expected False, True, 'rank_order' or 'ranks'"


SHORT: dict[str, Any] = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def accumulated(comm: Communicator, label: str) -> dict[str, Values]:
    x = part(comm.rank, label)
    found = {name: comm.all_reduce(x, algorithm=name, accumulate="float32") for name in at_once("all_reduce")}
    found["all_reduce"] = comm.all_reduce(x, accumulate="float32")
    found["coalesced"] = comm.all_reduce_coalesced([x], accumulate="float32")[0]
    found["packed"] = comm.all_reduce_packed(x.copy(), [COUNT], accumulate="float32")
    rows = [COUNT // comm.size] * comm.size
    found["scattered"] = comm.all_gather(comm.reduce_scatter(x, accumulate="float32")).reshape(-1)
    found["unevenly"] = comm.all_gather_v(comm.reduce_scatter_v(x, rows, accumulate="float32"), rows)
    return found


@pytest.mark.parametrize("label", SHORT)
@pytest.mark.parametrize("ranks", [2, 5, 8])
def test_sums_of_16_bits_are_rounded_once(pools: Pools, label: str, ranks: int) -> None:
    """To within half a unit of the last place of the exact sum, and what float32 adds, a thousandth of that."""
    rows = [part(rank, label).astype(np.float64) for rank in range(ranks)]
    exact = [float(sum(map(Fraction, column))) for column in zip(*rows, strict=True)]
    ulp = 2.0 ** (np.floor(np.log2(np.abs(exact))) - ml_dtypes.finfo(SHORT[label]).nmant)
    lost = np.abs(rows).sum(axis=0) * ranks * 2.0**-24
    for found in pools("shm", ranks).run(accumulated, label):
        for how, total in found.items():
            assert (np.abs(total.astype(np.float64) - exact) <= 0.5 * ulp + lost)[ulp > 2.0**-22].all(), how


def free(comm: Communicator) -> list[str]:
    """float32 is accumulated as it is: the algorithm stays free, and any may be named."""
    comm.all_reduce(np.ones(3, np.float32), algorithm="ring", accumulate="float32")
    return [comm.chosen("all_reduce", 3).why, comm.chosen("all_reduce", 3, "bfloat16").why]


def from_environment(comm: Communicator) -> tuple[bytes, str]:
    x = share(8, comm, "bfloat16")
    return comm.all_reduce(x).tobytes(), str(comm.chosen("all_reduce", 3 << 20, np.float32).part.program.name)


def test_the_environment_asks_for_all_calls(monkeypatch: pytest.MonkeyPatch, pools: Pools) -> None:
    if not available("shm"):
        pytest.skip("the native engine is not built")
    plain = pools("shm", 4).run(free)[0]
    monkeypatch.setenv("RINGTREE_DETERMINISTIC", "ranks")
    want = balanced_sum(part(number, "bfloat16") for number in range(8)).tobytes()
    for ranks in (2, 4):
        assert {bits for bits, _ in spawn(from_environment, ranks)} == {want}
    monkeypatch.setenv("RINGTREE_DETERMINISTIC", "")
    monkeypatch.setenv("RINGTREE_ACCUMULATE", "float32")
    assert {bits for bits, _ in spawn(from_environment, 4)} == set(spawn(asks_itself, 4))
    assert spawn(free, 4)[0][0] == plain[0], "float32's plan is left as it was"


def asks_itself(comm: Communicator) -> bytes:
    return bytes(comm.all_reduce(share(8, comm, "bfloat16"), deterministic="rank_order").tobytes())


def test_the_environment_with_an_algorithm_that_breaks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RINGTREE_DETERMINISTIC", "rank_order")
    monkeypatch.setenv("RINGTREE_ALGORITHM", "ring")
    with pytest.raises(Exception, match="ring does not reduce all_reduce in rank order at once"):
        spawn(from_environment, 2)
    monkeypatch.setenv("RINGTREE_ALGORITHM", "two_shot")
    assert {name for _, name in spawn(from_environment, 2)} == {"two_shot"}


def in_float32_by_ring(comm: Communicator) -> str:
    """The refusal of a short float's sum where the ring is forced; float32's is as free as ever."""
    comm.all_reduce(np.ones(4, np.float32))
    with pytest.raises(ValueError) as refused:
        comm.all_reduce(np.ones(4, np.float16))
    return str(refused.value)


def test_the_environment_asks_for_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RINGTREE_ACCUMULATE", "float32")
    monkeypatch.setenv("RINGTREE_ALGORITHM", "ring")
    for text in spawn(in_float32_by_ring, 3):
        assert text.startswith("ring does not reduce all_reduce in rank order at once")


def apart(comm: Communicator) -> str:
    with pytest.raises(Mismatch) as refused:
        comm.all_reduce(np.ones(8, np.float32), deterministic="ranks" if comm.rank else False)
    return str(refused.value)


def test_ranks_that_ask_for_different_orders_hear_of_it() -> None:
    if available("shm"):
        assert all("all_reduce" in texts for texts in spawn(apart, 3))


def test_every_algorithm_that_adds_up_at_once_can_be_balanced() -> None:
    assert balanced("all_reduce", 9) == at_once("all_reduce")
    assert set(balanced("all_reduce", 8)) == {*at_once("all_reduce"), "locality_tree"}
    assert balanced("all_reduce", 100) == at_once("all_reduce")
    assert balanced("reduce", 6) == ("flat",) and balanced("reduce_scatter", 6) == ("two_shot",)
    assert balanced("all_gather", 4) == balanced("barrier", 4) == ()
    assert set(balanced("all_reduce", 1)) == set(serving("all_reduce"))


def asked_of_all(comm: Communicator) -> list[bytes]:
    """The bits of all_reduce: free, then as the group asks, in a group made from it, and free again."""
    x = share(8, comm, "bfloat16")
    free = [comm.all_reduce(x).tobytes(), comm.all_reduce(x).tobytes()]
    comm.set_reductions(deterministic="ranks")
    kept = [comm.all_reduce(x).tobytes(), comm.all_reduce(x, async_op=True).result().tobytes()]
    comm.all_reduce(np.ones(3, np.float32), algorithm="ring", deterministic=False)
    kept += [group.all_reduce(x).tobytes() for group in (comm.duplicate(), comm.duplicate())]
    comm.set_reductions(accumulate="float32")
    kept.append(comm.all_reduce(x).tobytes())
    comm.set_reductions()
    assert comm.all_reduce(x).tobytes() == free[0] == free[1]
    with pytest.raises(ValueError, match="deterministic='rank': expected False, True, 'rank_order' or 'ranks'"):
        comm.set_reductions(deterministic="rank")
    with pytest.raises(ValueError, match="accumulate='bfloat16': expected None or 'float32'"):
        comm.set_reductions(accumulate="bfloat16")
    return kept


def test_a_group_asks_for_all_of_its_calls(engine: str) -> None:
    if not available(engine):
        pytest.skip("the native engine is not built")
    want = balanced_sum(part(number, "bfloat16") for number in range(8)).tobytes()
    threads = engine == "reference"
    for ranks in (2, 4):
        [once] = set(spawn(asks_itself, ranks, engine=engine, threads=threads))
        for *balanced_bits, rounded in spawn(asked_of_all, ranks, engine=engine, threads=threads):
            assert set(balanced_bits) == {want} and rounded == once
