"""Every type with every reduction by every algorithm, beside exact arithmetic rounded where the schedule's additions
are: special values, on the engines that there are."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from ringtree.algorithms import build, pairs
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.lower import lower
from ringtree.ir.schedule import Schedule
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.types import COMPLEX, INTEGERS, LOGICAL, PAIRS, Dtype
from tests.runtime.communicator.collectives.exact import (
    FORMATS,
    complex_reduced,
    float_reduced,
    truth_reduced,
    whole_reduced,
)
from tests.runtime.conftest import Pools
from tests.runtime.reductions import DTYPES, KINDS, Values, anything, stated
from tests.verify.sums import Tree, flat, formed

REDUCING = [(a, c) for a, c in pairs() if COLLECTIVES[c].reduces and not COLLECTIVES[c].repeats]
FEW = [(a, c) for a, c in REDUCING if a in ("ring", "one_shot", "flat", "chain", "recursive_doubling")]
"""One of each order of additions."""
PARTS = {"complex64": "float32", "complex128": "float64"}
COUNT = 96
"""Elements a rank: a multiple of all numbers of chunks here."""


Added = tuple[Tree, int]
"""How an element is added up, and its position on the whole vector."""


@cache
def built(name: str, collective: str, ranks: int) -> Schedule:
    """An algorithm's schedule, to the last rank where there is a root."""
    return build(name, collective, ranks, ranks - 1 if COLLECTIVES[collective].rooted else None)


@cache
def planned(name: str, collective: str, ranks: int) -> list[list[tuple[str, Added]]]:
    """By rank the elements of an algorithm's output, each with a key that elements added up alike share."""
    s = built(name, collective, ranks)
    trees = iter(formed(lower(s), s))
    sizes = s.promise.chunk_sizes(s.ranks, s.chunks, COUNT, None)
    ends, found = np.cumsum(sizes), []
    for rank in range(s.ranks):
        found.append(row := list[tuple[str, Added]]())
        for chunk in s.promise.postcondition(rank, s.ranks, s.chunks, s.root or 0):
            key = repr(tree := next(trees))
            row += [(f"{key} {at}", (tree, at)) for at in range(int(ends[chunk] - sizes[chunk]), int(ends[chunk]))]
    return found


def special(label: str, random: np.random.Generator) -> Values:
    """Zeros, infinities, NaNs, the largest and smallest numbers and their neighbours, and any bits."""
    drawn = anything(label, random, COUNT)
    if (real := PARTS.get(label, label)) in FORMATS:
        f = FORMATS[real]
        one = f.bias << f.mantissa
        codes = [0, 1, (1 << f.mantissa) - 1, 1 << f.mantissa, one, one + 1, one - 1, f.largest - 1, f.largest]
        codes += [f.largest + 1, (f.bias - f.mantissa - 1) << f.mantissa]  # half of the last place of 1, for ties
        sign = 1 << f.mantissa + f.exponent
        bits = drawn.view(f"u{DTYPES[real].itemsize}")
        chosen = random.choice([*codes, *(sign | c for c in codes)], len(bits))
        bits[:] = np.where(random.random(len(bits)) < 0.7, chosen, bits)
    return drawn


def called(comm: Communicator, kinds: list[tuple[str, str]], algorithms: list[tuple[str, str]], seed: int) -> list[Any]:
    """This rank's results, None where it has none."""
    found = []
    for label, op in kinds:
        x = special(label, np.random.default_rng([seed, comm.rank]))
        for name, collective in algorithms:
            if op == "avg" and COLLECTIVES[collective].prefix:
                continue
            schedule = built(name, collective, comm.size)
            root = {"root": comm.size - 1} if schedule.promise.rooted else {}
            found.append(getattr(comm, collective)(x, op, algorithm=schedule, **root))
    return found


def expected(label: str, op: str, tree: Tree, column: list[Any], ranks: int) -> Any:
    """One element, of its contributions by rank as raw bits (pairs of them for complex numbers)."""
    dtype, over = Dtype[label.upper()], flat(tree)
    if op in LOGICAL:
        mask = (1 << FORMATS[label].mantissa + FORMATS[label].exponent) - 1 if label in FORMATS else -1
        return truth_reduced(over, op, [bool(bits & mask) for bits in column])
    if dtype is Dtype.BOOL:
        same = {"sum": "lor", "max": "lor", "bor": "lor", "prod": "land", "min": "land", "band": "land", "bxor": "lxor"}
        return truth_reduced(over, same[op], [bool(bits) for bits in column])
    if dtype in INTEGERS:
        return whole_reduced(over, op, column, 8 * dtype.itemsize, label.startswith("int"))
    if dtype in COMPLEX:
        return complex_reduced(tree, op, column, PARTS[label], ranks)
    return float_reduced(tree, op, column, label, ranks)


def raw(x: Values, label: str) -> list[Any]:
    """Elements as Python's whole numbers: floats as their bits."""
    if label in PARTS:
        bits = x.view(f"u{DTYPES[PARTS[label]].itemsize}").reshape(-1, 2)
        return [tuple(row) for row in bits.tolist()]
    return x.view(f"u{x.itemsize}").tolist() if label in FORMATS else [int(v) for v in x.tolist()]


def alike(got: Any, want: Any, label: str, op: str) -> bool:
    """Equal to the bit, but for which NaN it is, and which zero of those that max and min compare."""
    if isinstance(want, tuple):
        return all(alike(g, w, PARTS[label], op) for g, w in zip(got, want, strict=True))
    if label not in FORMATS:
        return bool(got == want)
    f = FORMATS[label]
    if op in LOGICAL:
        return bool(got == (f.bias << f.mantissa if want else 0))
    magnitude = got & ((1 << f.mantissa + f.exponent) - 1)
    if want == -1:
        return bool(magnitude > f.largest + f.infinities)
    return bool(got == want) or (op in ("max", "min") and magnitude == 0 and want in (0, 1 << f.mantissa + f.exponent))


def compare(
    results: list[list[Any]], kinds: list[tuple[str, str]], algorithms: list[tuple[str, str]], seed: int
) -> int:
    """Asserts that all ranks have what is expected; returns how many elements were compared."""
    ranks, at, compared = len(results), 0, 0
    for label, op in kinds:
        rows = [special(label, np.random.default_rng([seed, rank])) for rank in range(ranks)]
        columns, known = list(zip(*(raw(row, label) for row in rows), strict=True)), dict[Any, Any]()
        for name, collective in algorithms:
            if op == "avg" and COLLECTIVES[collective].prefix:
                continue
            for rank, elements in enumerate(planned(name, collective, ranks)):
                got = results[rank][at]
                if got is None:
                    assert not elements
                    continue
                for k, (element, (key, (tree, where))) in enumerate(zip(raw(got, label), elements, strict=True)):
                    if key not in known:
                        known[key] = expected(label, op, tree, list(columns[where]), ranks)
                    compared += 1
                    assert alike(element, known[key], label, op), (
                        f"{name} {collective} of {label} by {op}, rank {rank}, element {k}: got {element}, expected "
                        f"{known[key]} of {columns[where]} by {tree}"
                    )
            at += 1
    return compared


PLAIN = [(label, op) for label, op in KINDS if Dtype[label.upper()] not in PAIRS]
LABELS = list(dict.fromkeys(label for label, _ in PLAIN))
EVERYWHERE = ("int8", "bfloat16", "float32", "complex64")
"""Types that meet every algorithm in the quick tests, one of each kind of kernel; the others meet one algorithm of each
order of additions."""


@pytest.mark.parametrize(
    ("label", "ranks", "algorithms"),
    [
        *(
            pytest.param(label, ranks, REDUCING, marks=[] if label in EVERYWHERE else pytest.mark.slow)
            for label in LABELS
            for ranks in (3, 4)
        ),
        *((label, 3, FEW) for label in LABELS if label not in EVERYWHERE),
    ],
    ids=lambda value: f"{len(value)} algorithms" if isinstance(value, list) else None,
)
def test_the_engine_is_exact_arithmetic_rounded(
    pools: Pools, label: str, ranks: int, algorithms: list[tuple[str, str]]
) -> None:
    kinds = [kind for kind in PLAIN if kind[0] == label]
    results = pools("shm", ranks).run(called, kinds, algorithms, 7)
    assert compare(results, kinds, algorithms, 7) > 1000


@pytest.mark.parametrize("label", LABELS)
def test_the_reference_engine_is_exact_arithmetic_rounded(pools: Pools, label: str) -> None:
    kinds = [kind for kind in PLAIN if kind[0] == label]
    results = pools("reference", 3).run(called, kinds, FEW, 8)
    assert compare(results, kinds, FEW, 8) > 100


def zeros(comm: Communicator) -> list[tuple[str, str, bool]]:
    """The signs of reduced zeros: minus where the result is -0."""
    found = []
    for op, mine in (("sum", -0.0), ("sum", 0.0 if comm.rank else -0.0), ("prod", -0.0), ("max", 0.0), ("min", -0.0)):
        total = comm.all_reduce(np.full(comm.size, mine, np.float32), op)
        found.append((op, str(mine), bool(np.signbit(total).all())))
    cancelled = comm.all_reduce(np.full(comm.size, (-1.0) ** comm.rank, np.float32))
    found.append(("sum", "cancelled", bool(np.signbit(cancelled).all())))
    return found


def test_signs_of_zeros(pools: Pools, engine: str) -> None:
    signs = [[minus for *_, minus in found] for found in pools(engine, 2).run(zeros)]
    assert signs == [[True, False, False, False, True, False]] * 2


def unlike_zeros(comm: Communicator) -> list[float]:
    """max and min of +0 and -0 by an algorithm whose ranks join in different orders."""
    x = np.full(1, -0.0 if comm.rank else 0.0, np.float32)
    return [float(comm.all_reduce(x, op, algorithm="recursive_doubling")[0]) for op in ("max", "min")]


def test_max_and_min_of_unlike_zeros_are_zero(pools: Pools, engine: str) -> None:
    """Of one sign or the other: ranks that join in different orders may have different ones."""
    assert pools(engine, 2).run(unlike_zeros) == [[0.0, 0.0]] * 2
    if engine == "shm":
        signs = [[np.signbit(v) for v in found] for found in pools(engine, 2).run(unlike_zeros)]
        assert signs == [[False, False], [True, True]], "each rank has its own contribution's zero"


def overflow(comm: Communicator) -> dict[str, float]:
    """Averages of the largest number of each type."""
    found = {}
    for label, f in FORMATS.items():
        largest = np.full(comm.size, f.largest, f"u{DTYPES[label].itemsize}").view(DTYPES[label])
        found[label] = float(comm.all_reduce(largest, "avg")[0])
        scaled = comm.all_reduce(largest * np.asarray(0.5, DTYPES[label]))
        assert scaled.tobytes() == largest.tobytes(), "halved before, the sum of two is no larger"
    return found


def test_an_average_overflows_as_its_sum_does(pools: Pools, engine: str) -> None:
    for found in pools(engine, 2).run(overflow):
        assert np.isnan(found.pop("float8_e4m3fn"))
        assert set(found.values()) == {np.inf}


def test_pairs_are_located_as_stated(pools: Pools, engine: str) -> None:
    kinds = [(label, op) for label, op in KINDS if Dtype[label.upper()] in PAIRS]
    algorithms = [(a, c) for a, c in REDUCING if c == "all_reduce"]
    results = pools(engine, 3).run(called, kinds, algorithms, 9)
    for at, (label, op) in enumerate((*kind,) for kind in kinds for _ in algorithms):
        rows = [anything(label, np.random.default_rng([9, rank]), COUNT) for rank in range(3)]
        want = stated(label, op, rows)
        for rank in range(3):
            for field in want.dtype.names or ():
                assert np.array_equal(results[rank][at][field], want[field], equal_nan="f" in want[field].dtype.kind)
