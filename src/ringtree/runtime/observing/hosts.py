"""The groups of this user's on several hosts: a process on each lists its own, and ends."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from tempfile import TemporaryFile
from typing import IO

from ringtree.runtime.launch.hosts.cause import not_started
from ringtree.runtime.launch.hosts.launcher import check_ssh, passed_path
from ringtree.runtime.launch.hosts.link import SSH, command_for
from ringtree.runtime.launch.hosts.placement import HostRanks
from ringtree.runtime.launch.rank_processes import prepared
from ringtree.runtime.observing.listing import Listing, listing_in

LISTING = "ringtree.runtime.observing.listing"
CONNECT_S = 8
"""Seconds that ssh tries to connect."""
ANSWER_S = 10.0
"""Seconds that all hosts have to answer."""
MOST_BYTES = 1 << 25
"""The most of a host's output that is read."""


def listings(
    hosts: Sequence[HostRanks], ssh: str = SSH, python: str | None = None
) -> Iterator[tuple[HostRanks, Listing | str]]:
    """Each host with its groups, or with the reason, in words that go on behind its name, for which there is no answer.
    All are asked at once, by the command that `ringtree run --hosts` would reach them by, and have ANSWER_S together.
    ValueError, before any is asked, for an `ssh` that is no command."""
    if any(not host.local for host in hosts):
        check_ssh(ssh)
    path = passed_path(os.environ)
    with ExitStack() as stack:
        asked = []
        for host in hosts:
            command = command_for(host, ssh, python, path, LISTING, CONNECT_S)
            out, err = stack.enter_context(TemporaryFile()), stack.enter_context(TemporaryFile())
            asked.append(_Question(host, command, out, err))
            stack.callback(asked[-1].end)
        until_s = time.monotonic() + ANSWER_S
        for one in asked:
            yield one.host, one.answer(until_s)


class _Question:
    """A process that lists a host's groups. Its output goes to files, so it never waits for who reads it, nor the
    reader for what the process has left behind."""

    def __init__(self, host: HostRanks, command: Sequence[str], out: IO[bytes], err: IO[bytes]) -> None:
        self.host, self._out, self._err = host, out, err
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            preexec_fn=prepared(parting=signal.SIGTERM),  # noqa: PLW1509  # it takes no lock
        )

    def answer(self, until_s: float) -> Listing | str:
        try:
            code = self._process.wait(max(until_s - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            return f"gave no answer within {ANSWER_S:g} s"
        try:
            found = listing_in(_bytes(self._out))
        except ValueError as error:
            return str(error)
        lines = [line.strip() for line in _bytes(self._err).decode(errors="replace").splitlines()]
        return found or not_started(self.host, code, [*filter(None, lines)], "listed no groups")

    def end(self) -> None:
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def _bytes(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read(MOST_BYTES)
