"""Cost parameters are found again from calls that were made up by them; a few disturbed ones change little."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ringtree.ir.collective import COLLECTIVES
from ringtree.plan import workload
from ringtree.plan.steps import wanted
from ringtree.price.memory import BUILT_IN, CostParameters, SharedMemory, quote
from ringtree.price.memory.fitting import MeasuredCall, fit

MEMORY = SharedMemory(cores=4, slots=8, slot_bytes=1 << 17)
TRUE = CostParameters(
    call_s=0.5e-6,
    latency_s=0.4e-6,
    message_s=0.05e-6,
    step_s=0.03e-6,
    turn_s=5e-6,
    switch_s=2e-6,
    copy_Bps=(100e9, 90e9, 60e9, 40e9, 20e9),
    fetch_Bps=(20e9, 25e9, 30e9, 25e9, 18e9),
    reduce_Bps=(50e9,) * 5,
    attach_Bps=(30e9, 30e9, 20e9, 20e9, 10e9),
    oversubscribed_fetch_Bps=(20e9, 20e9, 15e9, 10e9, 8e9),
    source="made up",
)
SIZES = [1 << k for k in range(3, 28, 2)]
CASES = [
    ("all_reduce", "one_shot"),
    ("all_reduce", "two_shot"),
    ("all_reduce", "parameter_server"),
    ("broadcast", "flat"),
]


def made(cases: list[tuple[str, str]], ranks: tuple[int, ...], parameters: CostParameters = TRUE) -> list[MeasuredCall]:
    found = []
    for collective, algorithm in cases:
        for n in ranks:
            for nbytes in SIZES:
                root = 0 if COLLECTIVES[collective].rooted else None
                steps = wanted(algorithm, collective, n, root, nbytes, MEMORY)
                work = workload(algorithm, collective, n, root, steps)
                took_s = quote(work, replace(MEMORY, parameters=parameters), nbytes).seconds
                found.append(MeasuredCall(work, MEMORY, nbytes, took_s))
    return found


def errors(parameters: CostParameters, calls: list[MeasuredCall]) -> np.ndarray:
    guesses = [quote(c.work, replace(c.memory, parameters=parameters), c.nbytes).seconds for c in calls]
    return np.abs(np.array(guesses) / [c.time_s for c in calls] - 1)


def test_a_machine_that_obeys_the_formula_is_found_again() -> None:
    parameters = fit(made(CASES, (2, 4, 8)), "found")
    assert parameters.source == "found"
    others = made([("all_gather", "ring"), ("reduce", "binomial"), ("all_reduce", "swing")], (2, 3, 4, 8))
    assert np.median(errors(parameters, made(CASES, (2, 4, 8)))) < 0.02
    assert np.median(errors(parameters, others)) < 0.06, "other algorithms, other ranks"
    assert abs(parameters.turn_s / TRUE.turn_s - 1) < 0.1
    off = np.array(parameters.oversubscribed_fetch_Bps) / TRUE.oversubscribed_fetch_Bps - 1
    assert np.median(np.abs(off)) < 0.1, "from ranks that share cores"


def test_disturbed_calls_bend_little() -> None:
    calls = made(CASES, (2, 4))
    noisy = [replace(c, time_s=c.time_s * (5 if k % 7 == 3 else 1)) for k, c in enumerate(calls)]
    assert np.median(errors(fit(noisy), calls)) < 0.1


@pytest.mark.parametrize("ranks", [(2,), (8,)])
def test_unmeasured_parameters_stay_built_in(ranks: tuple[int, ...]) -> None:
    parameters = fit(made(CASES, ranks))
    assert np.median(errors(parameters, made(CASES, ranks))) < 0.05
    if ranks == (2,):
        assert parameters.turn_s == BUILT_IN.turn_s
        assert parameters.oversubscribed_fetch_Bps == BUILT_IN.oversubscribed_fetch_Bps


def test_there_must_be_something_to_fit() -> None:
    with pytest.raises(ValueError, match="two ranks or more"):
        fit([])
