"""One rank's failure is every rank's error: ranks report after each stage how it went, and go on or raise together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from ringtree.errors import Mismatch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringtree.runtime.communicator.communicator import Communicator

KINDS: tuple[type[Exception], ...] = (ValueError, TypeError, ImportError, MemoryError, OSError, RuntimeError)
"""The errors that every rank raises. All others, which only a caller's own function raises, become the last."""


class JointStage:
    """A stage of a load or a save, and how it went on this rank. After `attempt` has caught an error, `agree` raises
    the first failing rank's on every rank."""

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm
        self.error: Exception | None = None

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Keeps an error of the block for `agree`; one after another is dropped."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  # of any kind: of a function of the caller's
            self.error = self.error or error

    def agree(self, subject: str = "", **digests: int) -> None:
        """Raises alike on every rank what the lowest failing rank met, as its kind. Mismatch: if ranks differ in
        a digest, by whose name the error states in what ranks differ over the `subject`."""
        kind = next((k for k, of in enumerate(KINDS) if isinstance(self.error, of)), len(KINDS) - 1)
        text = _in_words(self.error).encode(errors="replace") if self.error else b""
        rows = self._comm.all_gather(np.array([kind, len(text), *digests.values()], np.int64))
        if rows[:, 1].any():
            texts = self._comm.all_gather_v(np.frombuffer(text, np.uint8), rows[:, 1]).tobytes()
            raise self._failure(rows, texts) from self.error
        for k, what in enumerate(digests, 2):
            if len(unlike := np.flatnonzero(rows[:, k] != rows[0, k])):
                of = what.replace("_", " ")
                raise Mismatch(f"{subject}: ranks 0 and {unlike[0]} differ in {of}; expected the same on all ranks")

    def _failure(self, rows: NDArray[np.int64], texts: bytes) -> Exception:
        ends = np.cumsum(rows[:, 1]).tolist()
        each = [texts[end - n : end].decode(errors="replace") for n, end in zip(rows[:, 1].tolist(), ends, strict=True)]
        rank = int(np.flatnonzero(rows[:, 1])[0])
        alike = len({*each}) == 1
        return KINDS[int(rows[rank, 0])](each[rank] if alike else f"rank {rank}: {each[rank]}")


def _in_words(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, KINDS) and str(error):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
