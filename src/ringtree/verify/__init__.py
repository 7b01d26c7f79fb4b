"""Proofs that schedules and programs are correct for every input, without deadlock and without race."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringtree import late

if TYPE_CHECKING:
    from ringtree.verify.campaign import Case, Failure, Report, prove_many
    from ringtree.verify.order import ReductionOrder, is_balanced, rank_order
    from ringtree.verify.programs import ProgramProof, prove_programs
    from ringtree.verify.schedules import Proof, prove
    from ringtree.verify.wording import ProofError

_NAMES = {
    "campaign": ("Case", "Failure", "Report", "prove_many"),
    "order": ("ReductionOrder", "is_balanced", "rank_order"),
    "programs": ("ProgramProof", "prove_programs"),
    "schedules": ("Proof", "prove"),
    "wording": ("ProofError",),
}

__all__ = [
    "Case",
    "Failure",
    "ProgramProof",
    "Proof",
    "ProofError",
    "ReductionOrder",
    "Report",
    "is_balanced",
    "prove",
    "prove_many",
    "prove_programs",
    "rank_order",
]

__getattr__ = late.names(__name__, _NAMES)
