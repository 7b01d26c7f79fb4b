"""Torch's queries about a group, and its control of the group, beside calls."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NoReturn

from ringtree.runtime.communicator.communicator import Communicator
from ringtree.torch_backend.calls.launching import Launching
from ringtree.torch_backend.flight.alarm import Alarm, report
from ringtree.torch_backend.flight.recorder import RING, FlightRecorder
from ringtree.torch_backend.registration import NAME, made_here

LEAVE_S = 10.0
"""Seconds for which a rank that leaves still takes part in the calls it began."""


class Administration(Launching):
    """This rank's number in the group, its timeout, and the group's end."""

    _alarm: Alarm | None = None  # not of a group that was made from the default one

    def _begin(self, communicator: Communicator, store: Any, timeout_s: float) -> None:
        self._store = store
        self._open(communicator, FlightRecorder(communicator, self.name(), timeout_s, report))

    @property
    def communicator(self) -> Communicator:
        """The communicator of the group's ranks."""
        return self._communicator

    # what other backends have and this one does not
    supports_splitting = False
    supports_coalescing = False  # torch then calls the coalesced forms
    supports_time_estimate = False
    supports_shrinking = False
    supports_reconfigure = False
    supports_window = False

    def name(self) -> str:
        """The backend's name, "ringtree"."""
        return NAME

    getBackendName = _get_backend_name = name

    def rank(self) -> int:
        """This process's rank in the group, from 0."""
        return self._rank

    getRank = rank

    def size(self) -> int:
        """Number of ranks in the group."""
        return self._size

    getSize = size

    def _set_group_name(self, name: str) -> None:
        self._recorder.name = name

    def get_group_store(self) -> Any:
        """The group's store, for torch's own bookkeeping."""
        return self._store

    def _get_sequence_number_for_group(self) -> int:
        """The number of collectives that this rank has begun in this group."""
        return self._recorder.collectives

    def _set_sequence_number_for_group(self) -> None:
        """The numbers begin at 0 on all ranks, and need no agreement."""

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets the timeout of waits that begin from now on, on this rank."""
        self._communicator.set_timeout(timeout.total_seconds())
        self._recorder.timeout_s = timeout.total_seconds()

    # -- its end

    def listen(self) -> None:
        """Dumps the flight recorder when a call fails on any of these ranks. All call it."""
        if self._size > 1 and RING.maxlen:
            self._alarm = Alarm(self._communicator)

    def abort(self) -> None:
        """Ends the calls under way in this group with an error, on all ranks, whichever thread waits for them. Any
        thread may call it. What remains is to destroy the group."""
        self._communicator.abort()

    def errored(self) -> Exception | None:
        """The error with which the group failed, or that a rank of it has died; None while the group works."""
        try:
            self._communicator.check_liveness("errored()")
        except Exception as error:  # noqa: BLE001  # every kind is returned
            return error
        return None

    def shutdown(self) -> None:
        """Leaves the group once this rank's calls in it have ended; other ranks need not leave. Calls that have not
        ended within 10 s fail."""
        made_here.discard(self)
        self._leave(LEAVE_S)

    def _leave(self, timeout_s: float) -> None:
        if self._alarm is not None:
            self._alarm.close()
        super()._leave(timeout_s)

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} is this process's own and cannot be copied or pickled; send its ranks instead")

    def __deepcopy__(self, memo: Any) -> NoReturn:
        self.__reduce__()

    def __repr__(self) -> str:
        group = self._recorder.name
        return (
            f"<{NAME} process group {group!r}, rank {self._rank} of {self._size}: ranks {list(self._recorder.ranks)}>"
        )
