"""The error of the proofs, and values and sets of ranks in words."""

from __future__ import annotations

from collections.abc import Iterable

from ringtree.ir.collective import REDUCED


class ProofError(ValueError):
    """An error of a proof: a postcondition that is not met, or an unsafe program. `rank`, `chunk` (position on the
    whole vector) and `round`: the position, -1 where it has no meaning; the message has the expected and the found
    contents."""

    def __init__(self, message: str, *, rank: int = -1, chunk: int = -1, round: int = -1) -> None:
        super().__init__(message)
        self.rank, self.chunk, self.round = rank, chunk, round


def ranks_in_words(ranks: Iterable[int]) -> str:
    """`rank 3`, `ranks 0, 2..5`: runs of three and more are shortened."""
    listed = sorted(set(ranks))
    parts: list[str] = []
    i = 0
    while i < len(listed):
        j = i
        while j + 1 < len(listed) and listed[j + 1] == listed[j] + 1:
            j += 1
        if j - i >= 2:
            parts.append(f"{listed[i]}..{listed[j]}")
        else:
            parts.extend(str(x) for x in listed[i : j + 1])
        i = j + 1
    return f"rank{'s' * (len(listed) != 1)} {', '.join(parts) or 'none'}"


def value_in_words(label: int, origins: Iterable[int]) -> str:
    """A chunk's content: `nothing`, `rank 2's chunk 4`, `the sum of ranks 0..3 of chunk 4`."""
    held = sorted(set(origins))
    if label < 0 or not held:
        return "nothing"
    return (
        f"rank {held[0]}'s chunk {label}" if len(held) == 1 else f"the sum of {ranks_in_words(held)} of chunk {label}"
    )


def promise_in_words(label: int, origin: int, contributors: range) -> str:
    """The chunk's postcondition, in the words of `value_in_words`."""
    return value_in_words(label, contributors if origin == REDUCED else [origin])


def origins_of(mask: int) -> list[int]:
    """The ranks whose bits are set."""
    return [i for i in range(mask.bit_length()) if mask >> i & 1]
