"""Every operand's label gives the sizes of its chunks; a wrong label is refused, so proofs cover uneven forms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from ringtree.algorithms import build, pairs
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.lower import lower
from ringtree.ir.program import Program
from ringtree.ir.schedule import Block, Buffer, Schedule, Transfers
from ringtree.verify import ProofError, prove, prove_programs


def mislabelled(program: Program) -> Iterator[Program]:
    """The program with one operand's label another, by one or by the labels of an origin."""
    code = program.instructions
    for step, i in enumerate(code):
        for side in ("targets", "sources"):
            operands = getattr(i, side)
            for at, o in enumerate(operands):
                for by in (1, program.chunks):
                    changed = (*operands[:at], o._replace(label=o.label + by), *operands[at + 1 :])
                    yield replace(program, threads=((*code[:step], i._replace(**{side: changed}), *code[step + 1 :]),))


@pytest.mark.parametrize(("name", "collective"), pairs())
def test_a_wrong_label_is_refused(name: str, collective: str) -> None:
    programs = lower(build(name, collective, 5, 1 if COLLECTIVES[collective].rooted else None))
    prove_programs(programs)
    rank = max(range(5), key=lambda r: len(programs[r].instructions))
    wrong = list(mislabelled(programs[rank]))
    for k in np.random.default_rng(0).permutation(len(wrong))[:20].tolist():
        with pytest.raises(ProofError, match="may be another; expected scratch for it, or that label on the operand"):
            prove_programs([*programs[:rank], wrong[k], *programs[rank + 1 :]])


def test_a_chunk_kept_in_place_of_another_is_refused() -> None:
    """Right where chunks are of one size, as a schedule alone is proved."""
    staged = Transfers.of([0, 1, 0], [1, 1, 1], [0, 1, 1], to=[1, 0, 1], round=[0, 1, 2])
    schedule = Schedule("staged", "broadcast", 2, 2, (Block(staged),), 0)
    prove(schedule)
    with pytest.raises(ProofError, match="it takes chunk 0 in place of chunk 1, whose size may be another; expected s"):
        prove_programs(lower(schedule))


def hand_over(ranks: int, view: tuple[Buffer, Buffer]) -> Schedule:
    """all_to_all by way of rank 0's scratch, in rows of several chunks from several origins."""
    r = np.repeat(np.arange(ranks), ranks)
    to = np.tile(np.arange(ranks), ranks)
    collect = Transfers.of(r, 0, to, to=to * ranks + r, source_buffer=view[0], target_buffer=Buffer.SCRATCH)
    each = np.arange(ranks)
    deal = {"source_buffer": Buffer.SCRATCH, "target_buffer": view[1], "round": 1}
    rows = [collect, Transfers.of(0, each, each * ranks, to=0, count=ranks, **deal)]
    return Schedule("hand_over", "all_to_all", ranks, ranks, (Block(Transfers.concatenate(rows)),), scratch=ranks**2)


@pytest.mark.parametrize("view", [(Buffer.INPUT, Buffer.OUTPUT), (Buffer.DATA, Buffer.DATA)], ids=["two", "in place"])
def test_a_row_of_several_origins_is_cut(view: tuple[Buffer, Buffer]) -> None:
    programs = lower(hand_over(4, view))
    prove_programs(programs)
    assert {o.count for p in programs for i in p.instructions for o in i.sources} == {1}
