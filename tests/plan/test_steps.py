"""Cuts for a size are right, fit the group that runs them, and grow with the size."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from ringtree.algorithms import build, pairs
from ringtree.ir import spec
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.lower import lower
from ringtree.plan import CallTuning, other_way, steps_for
from ringtree.plan import steps as cuts
from ringtree.plan.nesting import NESTED, nestings
from ringtree.plan.over_hosts import INNER, OUTER
from ringtree.plan.steps import MOST_INSTRUCTIONS, MOST_TRANSFERS, _least_slots, _steps, fitting
from ringtree.price import BUILT_IN, SharedMemory
from ringtree.price.memory import built_in
from ringtree.price.memory.parameters import ON_A_MESH
from ringtree.verify import prove, prove_programs
from tests import oracle

KIB, MIB = 1 << 10, 1 << 20
SIZES = (8, 4 * KIB, 300_000, MIB, 64 * MIB)


def root(collective: str, ranks: int) -> int | None:
    return ranks // 2 if COLLECTIVES[collective].rooted else None


def tuned(algorithm: str, collective: str, ranks: int, nbytes: int, slots: int = 8) -> CallTuning:
    memory = SharedMemory(ranks, slots, MIB // slots)
    return steps_for(algorithm, collective, ranks, root(collective, ranks), nbytes, memory)


@pytest.mark.parametrize(("algorithm", "collective"), pairs())
@pytest.mark.parametrize("ranks", [5, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 8))])
def test_cut_schedules_are_right_and_fit(algorithm: str, collective: str, ranks: int) -> None:
    seen = dict[CallTuning, CallTuning]()
    for nbytes in SIZES:
        steps = tuned(algorithm, collective, ranks, nbytes)
        seen[steps] = steps
    for steps in seen:
        schedule = steps.apply(algorithm, collective, ranks, root(collective, ranks))
        if not steps:
            assert schedule == build(algorithm, collective, ranks, root(collective, ranks))
            continue
        spec.check(schedule)
        prove(schedule)
        if schedule.transfers < 500:
            assert oracle.wrong(schedule) is None
        programs = lower(schedule)
        assert prove_programs(programs).slots == steps.slots <= 8
        assert max(len(p.instructions) for p in programs) <= MOST_INSTRUCTIONS
        assert schedule.transfers <= MOST_TRANSFERS


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("algorithm", "collective"), pairs())
def test_schedules_cut_for_more_ranks_are_right_and_fit(algorithm: str, collective: str) -> None:
    for ranks in (3, 4, 6, 7, 9, 13, 16, 33, 64):
        slots = max(8, ranks)
        for steps in {tuned(algorithm, collective, ranks, nbytes, slots) for nbytes in SIZES}:
            schedule = steps.apply(algorithm, collective, ranks, root(collective, ranks))
            prove(schedule)
            assert prove_programs(lower(schedule)).slots <= slots or not steps


@pytest.mark.parametrize(("algorithm", "collective"), [p for p in pairs() if p[0] in ("chain", "double_tree")])
def test_long_vectors_are_pipelined_and_short_ones_are_not(algorithm: str, collective: str) -> None:
    def pieces(nbytes: int) -> int:
        steps = tuned(algorithm, collective, 8, nbytes)
        return dict(steps.options).get("pieces", 1) * steps.pipeline

    assert not tuned(algorithm, collective, 8, 64)
    depths = [pieces(1 << k) for k in (0, 14, 18, 22, 26)]
    assert depths == sorted(depths) and depths[-1] >= 128


def test_the_options_of_an_algorithm_are_listed_too() -> None:
    assert str(tuned("circulant_broadcast", "broadcast", 8, 64)) == "pieces=1"
    assert str(tuned("circulant_broadcast", "broadcast", 8, MIB)) == "pieces=32"


def test_long_reductions_take_many_sources_at_once() -> None:
    assert not tuned("binomial", "reduce", 8, 4 * KIB)
    assert "many_source" in str(tuned("binomial", "reduce", 8, 64 * MIB))


def test_messages_longer_than_two_slots_use_two_channels() -> None:
    assert not tuned("ring", "all_reduce", 8, MIB)
    assert str(tuned("ring", "all_reduce", 8, 64 * MIB)) == "channels(2)"


def test_messages_of_many_chunks_are_split_where_slots_are_small() -> None:
    assert str(tuned("bruck", "all_gather", 64, MIB, 64)) == "split(4)"


@pytest.mark.parametrize(
    ("algorithm", "collective", "ranks", "cores", "unstaged"),
    [
        ("two_shot", "all_gather", 2, 2, [64, 256, 1024, 4096, 65536]),  # KiB
        ("one_shot", "all_to_all", 2, 2, [64, 256, 1024, 4096, 65536]),
        ("flat", "scatter", 2, 2, [64, 256, 1024, 4096, 65536]),
        ("flat", "broadcast", 2, 2, [64, 256, 1024]),  # else the root stages while the other reads
        ("flat", "gather", 2, 2, [64, 256, 1024]),
        ("flat", "broadcast", 4, 2, []),  # staged once for all
        ("two_shot", "all_gather", 4, 2, []),
        ("one_shot", "all_to_all", 4, 2, [256, 1024, 4096, 65536]),
        ("ring", "all_gather", 8, 8, []),  # what was received is sent on
        ("one_shot", "all_reduce", 2, 2, []),
        ("two_shot", "all_reduce", 2, 2, []),
    ],
)
def test_messages_are_read_in_their_senders_memory_where_that_is_less_work(
    algorithm: str, collective: str, ranks: int, cores: int, unstaged: list[int]
) -> None:
    """As measured on 2 cores of an Intel Xeon (docs/performance.md)."""
    memory = SharedMemory(cores, 8, 1 << 17, single_copy_bytes=4 * MIB)
    what = algorithm, collective, ranks, root(collective, ranks)
    found = [kib for kib in (4, 16, 64, 256, 1024, 4096, 65536) if steps_for(*what, kib << 10, memory).single_copy]
    assert found == unstaged
    assert not any(steps_for(*what, kib << 10, replace(memory, single_copy_bytes=0)).single_copy for kib in unstaged)


@pytest.mark.parametrize(
    ("algorithm", "collective", "ranks", "unstaged"),
    [
        ("two_shot", "all_gather", 2, []),
        ("one_shot", "all_to_all", 2, []),
        ("flat", "broadcast", 2, []),
        ("flat", "gather", 4, []),
        ("one_shot", "all_to_all", 4, []),
        ("one_shot", "all_to_all", 8, []),
        ("flat", "scatter", 4, [16]),
        ("flat", "scatter", 8, [16]),
    ],
)
def test_messages_are_staged_where_the_kernel_is_slow(
    algorithm: str, collective: str, ranks: int, unstaged: list[int]
) -> None:
    """As measured on 2 cores of an AMD EPYC up to 1 MiB, and for scatter to several ranks (docs/performance.md)."""
    memory = SharedMemory(2, 8, 1 << 17, built_in(14e9), single_copy_bytes=4 * MIB)
    what = algorithm, collective, ranks, root(collective, ranks)
    mib = [1 / 16, 1 / 4, 1] + [16] * (collective == "scatter")
    assert [m for m in mib if steps_for(*what, int(m * MIB), memory).single_copy] == unstaged


@pytest.mark.parametrize(("reads_Bps", "least_Bps"), [(3e9, 6e9), (9e9, 10e9), (14e9, 10e9), (24e9, 11.5e9)])
def test_bytes_from_memory_are_never_priced_higher_than_in_proportion(reads_Bps: float, least_Bps: float) -> None:
    assert least_Bps <= built_in(reads_Bps).attach_Bps[-1] <= BUILT_IN.attach_Bps[-1]


@pytest.mark.parametrize("reads_Bps", [0.0, 25e9, 60e9])
def test_the_built_in_costs_hold_where_the_kernel_is_quick_or_reads_nothing(reads_Bps: float) -> None:
    assert built_in(reads_Bps) is BUILT_IN


@pytest.mark.parametrize(
    ("algorithm", "collective", "ranks", "unstaged"),
    [
        ("one_shot", "all_to_all", 2, [64]),
        ("flat", "scatter", 2, [64]),
        ("flat", "gather", 2, []),
        ("one_shot", "all_to_all", 4, [16, 64]),
        ("flat", "scatter", 4, [16, 64]),
        ("flat", "gather", 4, []),
        ("one_shot", "all_to_all", 8, [4, 16, 64]),
        ("flat", "scatter", 8, [16, 64]),
        ("flat", "gather", 8, []),
    ],
)
@pytest.mark.parametrize("reads_Bps", [9e9, 11e9])
def test_vectors_beyond_the_caches_are_read_from_memory(
    algorithm: str, collective: str, ranks: int, unstaged: list[int], reads_Bps: float
) -> None:
    """As took less time on 2 cores of an EPYC whose kernel reads 9 to 12 GB/s in its caches (decisions 0090
    and 0091)."""
    memory = SharedMemory(2, 8, 1 << 17, built_in(reads_Bps), single_copy_bytes=1 << 30)
    what = algorithm, collective, ranks, root(collective, ranks)
    assert [m for m in (1, 4, 16, 64) if steps_for(*what, m * MIB, memory).single_copy] == unstaged


@pytest.mark.parametrize(
    ("algorithm", "collective", "unstaged"),
    [
        ("one_shot", "all_to_all", [512, 1024, 4096, 16384]),
        ("two_shot", "all_gather", [1024, 4096, 16384]),
        ("flat", "scatter", [4096, 16384]),
        ("flat", "gather", []),
        ("flat", "broadcast", []),
    ],
)
def test_messages_on_a_mesh_are_staged_where_that_was_quicker(
    algorithm: str, collective: str, unstaged: list[int]
) -> None:
    """As measured on 2 cores of a Xeon, where each call sends what its rank has just written (docs/performance.md)."""
    memory = SharedMemory(2, 8, 1 << 17, built_in(19e9, on_a_mesh=True), single_copy_bytes=64 * MIB)
    what = algorithm, collective, 2, root(collective, 2)
    found = [kib for kib in (64, 256, 512, 1024, 4096, 16384) if steps_for(*what, kib << 10, memory).single_copy]
    assert found == unstaged


@pytest.mark.parametrize(
    ("algorithm", "collective", "ranks", "unstaged"),
    [
        ("one_shot", "all_to_all", 4, [2, 4, 8, 16, 64]),
        ("flat", "scatter", 4, [2, 4, 8, 16, 64]),
        ("flat", "gather", 4, [8, 16, 64]),
        ("one_shot", "all_to_all", 8, [1, 2, 4, 8, 16, 64]),
        ("flat", "scatter", 8, [1, 2, 4, 8, 16, 64]),
        ("flat", "gather", 8, [4, 8, 16, 64]),
    ],
)
def test_messages_of_ranks_that_share_the_cores_of_a_mesh(
    algorithm: str, collective: str, ranks: int, unstaged: list[int]
) -> None:
    """Within a factor of two of the sizes from which on they took less time on 2 cores of a Xeon (decision 0084)."""
    memory = SharedMemory(
        2, 8, 1 << 17, built_in(16e9, on_a_mesh=True, cores_are_shared=True), single_copy_bytes=1 << 30
    )
    what = algorithm, collective, ranks, root(collective, ranks)
    mib = (1 / 4, 1 / 2, 1, 2, 4, 8, 16, 64)
    assert [m for m in mib if steps_for(*what, int(m * MIB), memory).single_copy] == unstaged


@pytest.mark.parametrize("reads_Bps", [0.0, 14e9, 60e9])
def test_the_costs_of_a_mesh_hold_where_its_kernel_is_quick_or_reads_nothing(reads_Bps: float) -> None:
    assert built_in(reads_Bps, on_a_mesh=True) is ON_A_MESH


def test_single_copies_on_a_mesh_take_longer_where_its_kernel_is_slow() -> None:
    found = built_in(3e9, on_a_mesh=True)
    assert found.attach_Bps == pytest.approx([each / 4 for each in ON_A_MESH.attach_Bps])
    assert found.copy_Bps == ON_A_MESH.copy_Bps


@pytest.mark.parametrize(
    "algorithm, collective, ranks, kib, tried",
    [
        ("one_shot", "all_to_all", 2, 1024, True),
        ("one_shot", "all_to_all", 2, 128, False),  # messages of less than 128 KiB
        ("one_shot", "all_to_all", 8, 8192, True),
        ("two_shot", "all_gather", 2, 1024, True),
        ("two_shot", "all_gather", 3, 1024, False),  # bytes go to several ranks
        ("ring", "all_gather", 4, 4096, False),  # several rounds
        ("flat", "scatter", 4, 4096, True),
        ("flat", "gather", 4, 4096, True),
        ("binomial", "gather", 4, 4096, False),
        ("ring", "all_reduce", 2, 4096, True),
        ("two_shot", "all_reduce", 2, 128, False),
        ("two_shot", "reduce_scatter", 2, 1024, True),
        ("two_shot", "all_reduce", 4, 4096, False),  # sums over more ranks than two
        ("one_shot", "all_reduce", 2, 4096, False),  # each rank sums all
        ("flat", "reduce", 2, 4096, False),
        ("one_shot", "all_to_all", 1, 4096, False),
    ],
)
def test_the_other_way(algorithm: str, collective: str, ranks: int, kib: int, tried: bool) -> None:
    """The other way of the other way is the first, whichever that is."""
    memory = SharedMemory(2, 64, 1 << 17, single_copy_bytes=4 * MIB)
    what = algorithm, collective, ranks, root(collective, ranks), kib << 10, memory
    staged, unstaged = other_way(CallTuning(single_copy=True), *what), other_way(CallTuning(), *what)
    assert ((staged is not None), (unstaged is not None)) == (tried, tried)
    if staged is not None and unstaged is not None:
        assert unstaged.single_copy and not staged.single_copy
    nowhere = replace(memory, single_copy_bytes=0)
    assert other_way(CallTuning(), *what[:-1], nowhere) is None


def test_the_tuning_is_the_same_where_a_schedule_is_built_again() -> None:
    """Caches of schedules and of what is made from them end at different times."""
    before = tuned("chain", "broadcast", 8, 64 * MIB)
    for cache in (cuts._plain, cuts._wanted, cuts._steps):
        cache.cache_clear()
    assert tuned("chain", "broadcast", 8, 64 * MIB) == before


def test_no_more_slots_are_needed_than_there_are() -> None:
    many, few = tuned("double_tree", "all_reduce", 8, MIB), tuned("double_tree", "all_reduce", 8, MIB, 1)
    assert many.slots > 1 and few.slots <= 1 and few.pipeline < many.pipeline


def test_steps_print_their_kind() -> None:
    assert str(CallTuning()) == "not cut" and not CallTuning()
    assert str(CallTuning(single_copy=True)) == "single_copy"
    assert (
        str(CallTuning((("pieces", 4),), True, 2, 8, 2)) == "pieces=4, many_source, split(2), pipeline(8), channels(2)"
    )


def test_a_barrier_and_one_rank_are_left_alone() -> None:
    assert not tuned("dissemination", "barrier", 8, 64 * MIB)
    assert not tuned("chain", "broadcast", 1, 64 * MIB)


def test_a_mistake_is_answered_as_ever() -> None:
    with pytest.raises(ValueError, match="ring does not serve all_to_all"):
        tuned("ring", "all_to_all", 4, MIB)
    with pytest.raises(ValueError, match="no algorithm 'rign'"):
        tuned("rign", "all_reduce", 4, MIB)


def test_lengths_of_a_kind_are_proved_once() -> None:
    first = tuned("chain", "scan", 7, 5 * MIB)
    before = _steps.cache_info().misses
    assert first
    assert all(tuned("chain", "scan", 7, 5 * MIB + k) == first for k in range(1, 100))
    assert _steps.cache_info().misses == before


@pytest.mark.parametrize(("algorithm", "collective"), [("chain", "broadcast"), ("circulant_broadcast", "broadcast")])
def test_cuts_follow_the_cost_of_a_message(algorithm: str, collective: str) -> None:
    """So `ringtree tune` moves them: where messages take 16 times as long, a quarter of the pieces; where
    bytes move 4 times as fast, half."""

    def pieces(**changes: Any) -> int:
        memory = SharedMemory(8, 8, MIB // 8, replace(BUILT_IN, **changes))
        steps = steps_for(algorithm, collective, 8, 0, 64 * MIB, memory)
        return dict(steps.options).get("pieces", 1) * steps.pipeline

    b, usual = BUILT_IN, pieces()
    assert pieces(latency_s=16 * b.latency_s, message_s=16 * b.message_s) == usual // 4
    fast = {name: tuple(4 * rate for rate in getattr(b, name)) for name in ("copy_Bps", "fetch_Bps")}
    assert pieces(**fast) == usual // 2


def test_built_in_a_message_is_worth_5_kb() -> None:
    assert 5000 < BUILT_IN.message_nbytes < 5500
    assert replace(BUILT_IN, latency_s=0.0, message_s=0.0).message_nbytes == 64, "a cache line"


@pytest.mark.parametrize("ranks", [4, pytest.param(6, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("algorithm", "collective"), pairs())
def test_channels_need_the_slots_by_which_they_are_refused(algorithm: str, collective: str, ranks: int) -> None:
    """Channels are refused by the proof of one of them; all of them proved would be refused as well."""
    _is_least(CallTuning(channels=2), algorithm, collective, ranks, root(collective, ranks))


@pytest.mark.parametrize("inner", INNER)
def test_channels_of_nestings_need_the_slots_by_which_they_are_refused(inner: str) -> None:
    hosts = (0, 0, 1, 1, 1)
    for outer in OUTER:
        with suppress(ValueError):  # it serves no two hosts
            [options] = nestings(hosts, (inner,), (outer,))
            _is_least(CallTuning(options, channels=4), NESTED, "all_reduce", len(hosts), None)


def _is_least(steps: CallTuning, algorithm: str, collective: str, ranks: int, root: int | None) -> None:
    needed = prove_programs(lower(steps.apply(algorithm, collective, ranks, root))).slots
    assert _least_slots(steps, algorithm, collective, ranks, root) <= needed, (algorithm, collective, steps)
    assert fitting(steps, algorithm, collective, ranks, root, 2 * needed).channels == steps.channels
