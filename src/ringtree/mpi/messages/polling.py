"""Probes that do not wait, as programs make them again and again until a message comes.

MPI has no error for a probe of a communicator that the others have freed. A program that polls in vain for as long as
any other wait may last gets one all the same: it would poll for ever.
"""

from __future__ import annotations

import time
from typing import Any

from ringtree.runtime.communicator.communicator import Communicator

PAUSE_S = 1.0
"""A probe that comes later after the last one than this does not belong to the same row of probes."""


class Poll:
    """One communicator's probes in a row that have found nothing: when the first and the last were."""

    def __init__(self) -> None:
        self._first_s = self._last_s = -PAUSE_S

    def find(self, comm: Communicator, source: int, tag: int) -> Any:
        """The status of a message that is there, or None; raises iprobe's error after probes in vain for the group's
        timeout, where nobody is left who could send it."""
        now_s = time.monotonic()
        if now_s - self._last_s > PAUSE_S:
            self._first_s = now_s
        # One or the other: the engine looks for who has left now and then only, and either takes the other's turn.
        in_vain = now_s - self._first_s > comm.timeout_s
        found = comm.iprobe(source, tag) if in_vain else comm._glance(source, tag)
        self._last_s = time.monotonic()
        if found is not None:
            self._first_s = self._last_s
        return found
