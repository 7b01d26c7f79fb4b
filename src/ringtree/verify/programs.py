"""Proves programs: that they end, that no two steps race, and that every rank ends with the postcondition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ringtree.ir.program import Kind, Program
from ringtree.verify.progress import play
from ringtree.verify.races import Openness, check_races
from ringtree.verify.replay import replay
from ringtree.verify.wiring import wire
from ringtree.verify.wording import ProofError


@dataclass(frozen=True, slots=True)
class ProgramProof:
    """The result of proving a set of programs.

    `slots`: the fewest that suffice; of each sender where every rank has one thread, else of each lane; 0 where none
    is used. `early`, `late`: for one-sided programs, why they need a barrier before or after; None where they do not.
    """

    name: str
    collective: str
    ranks: int
    threads: int
    instructions: int
    messages: int
    slots: int
    early: str | None = None
    late: str | None = None

    def __str__(self) -> str:
        return (
            f"{self.name} {self.collective} over {self.ranks} ranks: {self.instructions} instructions in "
            f"{self.threads} threads and {self.messages} messages proved; slots needed: {self.slots}"
        )


def prove_programs(
    programs: Sequence[Program],
    *,
    slots: int | None = None,
    in_place: bool = False,
    even: bool = False,
    alike: bool = False,
) -> ProgramProof:
    """Accepts the programs of all ranks if with `slots` slots (default: as many as they need) they end without
    deadlock, no race between threads, between a reader and a later writer, or, where they are aliasable, between input
    and output, and with exactly the collective's postcondition. ProofError: if not.

    `in_place`: input and output are one memory, position by position; otherwise a program that writes its input is
    refused. `even`: all chunks are of one size, so that labels of operands need not be right; `alike`: where the
    collective transposes, all blocks are cut alike, so that labels may be of another block. Without either the proof
    holds for blocks of any sizes, the uneven forms.
    """
    programs = _whole(programs)
    w = wire(programs, in_place=in_place)
    progress = play(w, slots)
    openness = Openness()
    if w.threaded or w.one_sided:
        openness = check_races(w, progress.runs, slots=slots)
    replay(w, progress.runs, even=even, alike=alike)
    p = programs[0]
    return ProgramProof(
        p.name,
        p.collective,
        p.ranks,
        len(w.threads),
        sum(len(t.code) for t in w.threads),
        sum(i.kind == Kind.SIGNAL for t in w.threads for i in t.code),
        progress.slots,
        openness.before,
        openness.after,
    )


def _whole(programs: Sequence[Program]) -> list[Program]:
    """The programs sorted by rank; refuses them where they are not one of each rank of one collective."""
    if not programs:
        raise ProofError("no programs; expected one for each rank")
    ordered = sorted(programs, key=lambda p: p.rank)
    first = ordered[0]
    if [p.rank for p in ordered] != list(range(first.ranks)):
        raise ProofError(
            f"{first.name}: programs of ranks {[p.rank for p in ordered]}; expected one of each of 0..{first.ranks - 1}"
        )
    for p in ordered:
        mine, theirs = ((x.collective, x.ranks, x.chunks, x.root) for x in (p, first))
        if mine != theirs:
            raise ProofError(f"{p.name}: rank {p.rank} is of {mine}; rank {first.rank} of {theirs}", rank=p.rank)
    return ordered
