"""Predictions for imaginary machines: the choice avoids the operations that are expensive there."""

from __future__ import annotations

from dataclasses import replace
from math import isclose

import pytest

from ringtree.algorithms import pairs
from ringtree.ir.collective import COLLECTIVES
from ringtree.plan import candidates, choose, predict, steps_for
from ringtree.plan.steps import wanted
from ringtree.plan.tuning import CallTuning
from ringtree.price.memory import BUILT_IN, CostParameters, SharedMemory

KIB, MIB = 1 << 10, 1 << 20
PLAIN = CostParameters(
    call_s=1e-6,
    latency_s=2e-6,
    message_s=0,
    step_s=0,
    turn_s=0,
    switch_s=0,
    copy_Bps=(10e9,),
    fetch_Bps=(5e9,),
    reduce_Bps=(20e9,),
    attach_Bps=(4e9,),
    oversubscribed_fetch_Bps=(2e9,),
    memory_nbytes=(1 << 20,),
    source="by hand",
)
MEMORY = SharedMemory(cores=8, slots=8, slot_bytes=128 * KIB, parameters=PLAIN)
BUILT = replace(MEMORY, parameters=BUILT_IN)


def test_a_call_is_the_sum_of_its_parts_worked_out_by_hand() -> None:
    """Two ranks, one_shot: each copies the vector into a slot, meets, reads the other's, joins and writes it."""
    found = predict("one_shot", "all_reduce", 2, None, 100_000, CallTuning(), MEMORY)
    assert isclose(found.call_s, 1e-6) and isclose(found.latency_s, 2e-6)
    assert isclose(found.copy_s, 100_000 * 2 / 10e9) and isclose(found.fetch_s, 100_000 / 5e9)
    assert isclose(found.reduce_s, 100_000 / 20e9)
    assert found.seconds == found.call_s + found.latency_s + found.copy_s + found.fetch_s + found.reduce_s


def test_a_message_read_in_place_is_not_staged_worked_out_by_hand() -> None:
    """Two ranks, all_to_all of 2 MB: each copies its own half, and reads and writes the other's."""
    memory = replace(MEMORY, single_copy_bytes=4 * MIB)
    found = predict("one_shot", "all_to_all", 2, None, 2_000_000, CallTuning(single_copy=True), memory)
    assert isclose(found.copy_s, 1_000_000 * 1.5 / 10e9) and isclose(found.fetch_s, 1_000_000 / 4e9)
    assert isclose(found.latency_s, 2e-6), "no windows: a message is as long as a chunk"


def test_windows_meet_again_where_ranks_wait_for_one_another() -> None:
    def latency_s(algorithm: str, collective: str, root: int | None) -> float:
        return predict(algorithm, collective, 2, root, 1024 * KIB, CallTuning(), MEMORY).latency_s

    assert isclose(latency_s("one_shot", "all_reduce", None), 8 * 2e-6), "8 windows of a slot each"
    assert isclose(latency_s("flat", "broadcast", 0), 2e-6), "the root need not wait for anybody"


@pytest.mark.parametrize(("dear", "few"), [("latency_s", "one_shot"), ("fetch_Bps", "two_shot")])
def test_expensive_steps_are_avoided(dear: str, few: str) -> None:
    value = 1e-3 if dear.endswith("_s") else (1e6,)
    assert (
        choose("all_reduce", 8, 64 * KIB, memory=replace(MEMORY, parameters=replace(PLAIN, **{dear: value}))).algorithm
        == few
    )


def test_the_size_at_which_the_choice_changes_grows_with_the_latency() -> None:
    def longest(latency_s: float) -> int:
        memory = replace(MEMORY, parameters=replace(PLAIN, latency_s=latency_s))
        return max(k for k in range(4, 27) if choose("all_reduce", 4, 1 << k, False, memory).algorithm == "one_shot")

    assert longest(1e-7) < longest(1e-6) < longest(1e-5)


def test_more_ranks_than_cores_take_turns() -> None:
    parameters = replace(PLAIN, turn_s=10e-6, switch_s=1e-6)
    alone, oversubscribed = (
        predict(
            "two_shot",
            "all_reduce",
            4,
            None,
            8 * KIB,
            CallTuning(),
            replace(MEMORY, cores=cores, parameters=parameters),
        )
        for cores in (4, 2)
    )
    assert isclose(oversubscribed.call_s, 2 * alone.call_s)
    assert isclose(oversubscribed.latency_s, 2 * 10e-6 + 2 * 1e-6), "2 ranks a core, and one more synchronization"
    assert isclose(oversubscribed.copy_s, 2 * alone.copy_s)


@pytest.mark.parametrize(("algorithm", "staged", "read"), [("flat", 2, 3), ("binomial", 1 + 1, 1 + 1)])
def test_a_round_takes_as_long_as_its_busiest_core(algorithm: str, staged: int, read: int) -> None:
    """reduce of 4 ranks on 2 cores, neighbours on one. flat: ranks 2 and 3 stage, then rank 0 reads three vectors;
    binomial: both cores stage and read one, then rank 2 stages and rank 0 reads. What was read is added and written."""
    nbytes = 8 * KIB
    found = predict(algorithm, "reduce", 4, 0, nbytes, CallTuning(), replace(MEMORY, cores=2))
    assert isclose(found.fetch_s, read * nbytes / 2e9), "at the rate of ranks that share cores"
    steps = 1 if algorithm == "flat" else 2
    assert isclose(found.copy_s, (staged + steps) * nbytes / 10e9)


def test_rates_depend_on_the_bytes_in_arrays() -> None:
    parameters = replace(
        PLAIN,
        memory_nbytes=(MIB, 4 * MIB),
        copy_Bps=(10e9, 1e9),
        fetch_Bps=(5e9,) * 2,
        reduce_Bps=(1e9,) * 2,
        attach_Bps=(1e9,) * 2,
        oversubscribed_fetch_Bps=(4e9,) * 2,
    )
    assert parameters.seconds_a_byte(8)[0] == 1e-10
    assert parameters.seconds_a_byte(8)[1] == 2e-10 and parameters.seconds_a_byte(8, oversubscribed=True)[1] == 2.5e-10
    assert isclose(parameters.seconds_a_byte(2 * MIB)[0], (1e-10 + 1e-9) / 2)
    assert parameters.seconds_a_byte(1 << 40)[0] == 1e-9


@pytest.mark.parametrize(("algorithm", "collective"), pairs())
def test_everything_has_a_price_that_grows_with_its_bytes(algorithm: str, collective: str) -> None:
    root = 0 if COLLECTIVES[collective].rooted else None
    for ranks in (1, 2, 6):
        times = []
        for nbytes in (8, 4 * KIB, MIB, 64 * MIB):
            steps = wanted(algorithm, collective, ranks, root, nbytes, BUILT)
            times.append(predict(algorithm, collective, ranks, root, nbytes, steps, BUILT).seconds)
        assert times[0] > 0 and times == sorted(times), ranks


def test_wanted_cuts_are_made_where_slots_suffice() -> None:
    what = ("chain", "broadcast", 4, 0, MIB)
    assert wanted(*what, BUILT) == steps_for(*what, BUILT) != CallTuning()


def test_candidates_state_their_reasons() -> None:
    found = candidates(("one_shot", "two_shot"), "all_reduce", 2, MIB, MEMORY)
    assert [c.algorithm for c in found] == ["one_shot", "two_shot"]
    why = choose("all_reduce", 2, MIB, memory=MEMORY).why
    assert "predicted" in why and why.endswith("by by hand")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"call_s": -1.0}, "call_s is -1.0; expected 0 to 1 second"),
        ({"latency_s": float("nan")}, "latency_s is nan"),
        ({"copy_Bps": (1e9, 1e9)}, "copy_Bps is .* expected 1 numbers"),
        ({"fetch_Bps": (0.0,)}, "each 1 to 1e"),
        ({"memory_nbytes": ()}, "memory_nbytes"),
    ],
)
def test_parameters_that_cannot_be(change: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        replace(PLAIN, **change)  # type: ignore[arg-type]
