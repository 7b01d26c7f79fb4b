"""Who diverged first, in hangs of every kind."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from ringtree.formats.flight.divergence import Findings, HangKind, compare
from ringtree.formats.flight.dumps import DumpError
from tests.formats.flight.recorded import Groups, document, entry, write

GOOD = [entry("all_reduce", 1), entry("broadcast", 2)]
A, B, C = ("a", "A"), ("b", "B"), ("c", "C")


def waits(name: str, number: int, **given: Any) -> dict[str, Any]:
    return entry(name, number, "started", **given)


class Case(NamedTuple):
    """`ranks`: what each did after the good calls, None where it left no dump. `kind`, `culprits` and `number` of the
    first hang."""

    ranks: list[list[dict[str, Any]] | None]
    kind: HangKind | None
    culprits: tuple[int, ...] = ()
    number: int = 3
    groups: Groups = MappingProxyType({})
    shift: int = 0


REDUCES = [waits("all_reduce", 3, at_s=5)]
CASES = {
    "a rank that never came": Case([REDUCES, [], REDUCES], HangKind.MISSING, (1,)),
    "two that never came": Case([REDUCES, [], [], REDUCES], HangKind.MISSING, (1, 2)),
    "a rank without a dump": Case([REDUCES, None, REDUCES], HangKind.NO_DUMP, (1,)),
    "one without a dump, and one that did not come": Case([REDUCES, None, []], HangKind.MISSING, (2,)),
    "another operation": Case([REDUCES, [waits("broadcast", 3)], REDUCES], HangKind.MISMATCH, (1,)),
    "another size": Case([REDUCES, REDUCES, [waits("all_reduce", 3, sizes=[[5]])]], HangKind.MISMATCH, (2,)),
    "another type": Case([REDUCES, REDUCES, [waits("all_reduce", 3, dtype="Half")]], HangKind.MISMATCH, (2,)),
    "one of two, nobody stands out": Case([REDUCES, [waits("all_reduce", 3, sizes=[[5]])]], HangKind.MISMATCH),
    "another shape of as many elements": Case([REDUCES, [waits("all_reduce", 3, sizes=[[2, 4]])]], HangKind.UNFINISHED),
    "a call left out": Case(
        [[waits("all_gather", 3), waits("all_reduce", 4)], [waits("all_reduce", 3)], [waits("all_gather", 3)]],
        HangKind.MISMATCH, (1,), shift=1,
    ),
    "a call too many": Case(
        [[waits("all_reduce", 3)], [waits("all_gather", 3), waits("all_reduce", 4)], [waits("all_reduce", 3)]],
        HangKind.MISMATCH, (1,), shift=-1,
    ),
    "later calls follow from the first": Case(
        [[*REDUCES, waits("all_gather", 4)], [], [*REDUCES, waits("reduce", 4)]], HangKind.MISSING, (1,)
    ),
    "all came": Case([REDUCES, REDUCES], HangKind.UNFINISHED),
    "roots have other sizes": Case(
        [[waits("gather", 3, outputs=[[2, 8]])], [waits("gather", 3, outputs=[])]], HangKind.UNFINISHED
    ),
    "uneven all_to_all": Case(
        [[waits("all_to_all", 3, sizes=[[3]])], [waits("all_to_all", 3, sizes=[[9]])]], HangKind.UNFINISHED
    ),
    "a root that need not wait": Case([[entry("broadcast", 3)], [], [entry("broadcast", 3)]], None),
    "a rank that waits elsewhere": Case(
        [[waits("all_reduce", 1, group=A)], [waits("all_reduce", 1, group=B, at_s=9)], []],
        HangKind.MISSING, (2,), 1, {"a": ("A", [0, 1]), "b": ("B", [1, 2])},
    ),
    "a rank that waits elsewhere in a mismatch": Case(
        [REDUCES, [waits("all_reduce", 1, group=A, at_s=7)], [waits("broadcast", 1, group=A, at_s=7)]],
        HangKind.MISMATCH, (), 1, {"a": ("A", [1, 2])},
    ),
    "a receive": Case([[waits("recv 0<-1", 9)], []], HangKind.MISSING, (1,), 1),
    "a send": Case([[], [waits("send 1->0", 9)]], HangKind.MISSING, (0,), 1),
    "messages of other sizes": Case(
        [[waits("recv 0<-1", 9)], [waits("send 1->0", 4, sizes=[[4]])]], HangKind.MISMATCH, (), 1
    ),
    "messages that fit, whatever their numbers": Case(
        [[entry("recv 0<-1", 8), waits("recv 0<-1", 9)], [waits("send 1->0", 4)]], HangKind.UNFINISHED, (), 1
    ),
    "coalesced calls of another kind": Case(
        [[waits("_all_gather_base", 3), waits("all_reduce", 3)], [waits("_all_gather_base", 3), waits("reduce", 3)]],
        HangKind.MISMATCH,
    ),
}  # fmt: skip


def findings(folder: Path, case: Case) -> Findings:
    return compare([
        write(folder / f"rank_{rank}", pickle.dumps(document(GOOD + mine, len(case.ranks), case.groups)))
        for rank, mine in enumerate(case.ranks)
        if mine is not None
    ])  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_first_divergence(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    found = findings(tmp_path, case)
    assert not found.circle and not found.differed
    if case.kind is None:
        assert not found.hangs
        return
    (first,) = found.first
    assert (first.kind, first.culprits, first.number) == (case.kind, case.culprits, case.number)
    assert first.shift == case.shift


def test_ranks_that_wait_for_each_other_in_a_circle(tmp_path: Path) -> None:
    groups = {"a": ("A", [0, 1]), "b": ("B", [1, 2]), "c": ("C", [0, 2])}
    ranks = [[waits("all_reduce", 1, group=g)] for g in (A, B, C)]
    found = findings(tmp_path, Case([*ranks], None, groups=groups))
    assert not found.first and [hang.waiting for hang in found.circle] == [(0,), (1,), (2,)]


def test_a_rank_outside_a_circle_is_not_of_it(tmp_path: Path) -> None:
    groups = {"a": ("A", [0, 1]), "b": ("B", [0, 1]), "c": ("C", [0, 2])}
    ranks = [[waits("all_reduce", 1, group=g, at_s=s)] for g, s in ((A, 5), (B, 6), (C, 1))]
    found = findings(tmp_path, Case([*ranks], None, groups=groups))
    assert {hang.waiting for hang in found.circle} == {(0,), (1,)} and len(found.hangs) == 3


def test_a_ring_that_has_dropped_old_calls_is_no_divergence(tmp_path: Path) -> None:
    write(tmp_path / "rank_0", pickle.dumps(document([entry("all_reduce", n) for n in range(1, 9)], 2, {})))
    case = [document([entry("all_reduce", n) for n in range(low, 9)], 2, {}) for low in (1, 6)]
    found = compare([write(tmp_path / f"rank_{r}", pickle.dumps(d)) for r, d in enumerate(case)])
    assert not found.hangs and not found.differed


def test_a_mismatch_in_a_call_that_ended(tmp_path: Path) -> None:
    ranks = [[entry("all_reduce", 3)], [entry("all_reduce", 3, sizes=[[5]])]]
    found = findings(tmp_path, Case([*ranks], None))
    assert not found.hangs and [hang.number for hang in found.differed] == [3]


def test_two_dumps_of_a_rank(tmp_path: Path) -> None:
    mine, other = (pickle.dumps(document(entries, 2, {})) for entries in (GOOD, GOOD[:1]))
    first = write(tmp_path / "rank_0", mine)
    assert not compare([first, write(tmp_path / "rank_0.copy", mine)]).hangs
    with pytest.raises(DumpError, match=r"rank_0 and .*rank_0\.old are both of rank 0"):
        compare([first, write(tmp_path / "rank_0.old", other)])
