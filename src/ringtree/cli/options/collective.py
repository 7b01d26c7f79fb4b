"""A collective's name on a command line: ringtree's, or nccl-tests'."""

from __future__ import annotations

THEIRS = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "sendrecv": "send_recv",
}
"""nccl-tests' names of collectives, and ours."""


def collective_name(text: str) -> str:
    """Our name of a collective that nccl-tests names otherwise; any other text as it is."""
    return THEIRS.get(text, text)
