"""Proofs that schedules and programs are correct for every input, without deadlock and without race."""

from ringtree.verify.campaign import Case, Failure, Report, prove_many
from ringtree.verify.order import ReductionOrder, rank_order
from ringtree.verify.programs import ProgramProof, prove_programs
from ringtree.verify.schedules import Proof, prove
from ringtree.verify.wording import ProofError

__all__ = [
    "Case",
    "Failure",
    "ReductionOrder",
    "ProgramProof",
    "Proof",
    "ProofError",
    "Report",
    "prove",
    "prove_many",
    "prove_programs",
    "rank_order",
]
