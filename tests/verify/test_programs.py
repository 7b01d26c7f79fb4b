"""Programs that lack one instruction, or have two in the other order: accepted only if a replay on numbers is right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ringtree.algorithms import build
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.lower import lower
from ringtree.ir.program import Program
from ringtree.verify import ProofError, prove_programs
from tests.ir.program_replay import replay


def changed(programs: tuple[Program, ...]) -> Iterator[tuple[Program, ...]]:
    for rank, p in enumerate(programs):
        code = p.instructions
        for k in range(len(code)):
            swapped = (*code[:k], *code[k : k + 2][::-1], *code[k + 2 :])
            for thread in ((*code[:k], *code[k + 1 :]), swapped):
                yield (*programs[:rank], replace(p, threads=(thread,)), *programs[rank + 1 :])


@pytest.mark.parametrize(
    ("name", "collective"),
    [("ring", "all_reduce"), ("two_shot", "all_reduce"), ("double_tree", "reduce"), ("pairwise", "all_to_all")]
    + [("halving_doubling", "all_gather"), ("flat", "scatter")],
)
def test_one_wrong_instruction(name: str, collective: str) -> None:
    schedule = build(name, collective, 4, 1 if COLLECTIVES[collective].rooted else None)
    verdicts = Counter[str]()
    for programs in changed(lower(schedule)):
        try:
            prove_programs(programs)
        except ProofError:
            verdicts["refused"] += 1
        else:
            replay(schedule, programs)
            verdicts["harmless"] += 1
    print(verdicts)
    assert verdicts["refused"] > verdicts["harmless"] > 0
