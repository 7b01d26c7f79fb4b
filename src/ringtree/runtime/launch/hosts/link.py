"""The launcher's end of the line to one host's agent: a process of ssh, or the agent itself on this host."""

from __future__ import annotations

import contextlib
import os
import selectors
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

from ringtree.runtime.launch.hosts.messages import (
    EVENT,
    GREETING,
    LONGEST_MESSAGE,
    Message,
    UnknownLine,
    line_of,
    message_of,
    output_of,
)
from ringtree.runtime.launch.hosts.placement import HostRanks
from ringtree.runtime.launch.rank_processes import prepared
from ringtree.runtime.launch.whole_lines import WholeLines

AGENT = "ringtree.runtime.launch.hosts.agent"
SSH = "ssh"
SSH_OPTIONS = ("BatchMode=yes", "ServerAliveInterval=5", "ServerAliveCountMax=3")
"""No questions, and an end where the other host is silent; options of the user's come before and win."""
CONNECT_S = 20
"""Seconds that ssh tries to connect."""
END_S = 2.0
"""Seconds that a process of ssh has to end after its output."""
KEPT_LINES = 20
"""Lines of ssh's standard error that are kept for a report."""


class Receiver(Protocol):
    """The taker of what comes over a link."""

    def hear(self, link: AgentLink, message: Message) -> None:
        """Takes the agent's greeting, an answer or an event."""
        ...

    def print(self, link: AgentLink, number: int, rank: int, text: bytes) -> None:
        """Takes a line of a rank's."""
        ...

    def lost(self, link: AgentLink) -> None:
        """Notes that the line is closed."""
        ...


class AgentLink:
    """One host's agent, started by `command`. Events come by the selector and go to the receiver."""

    def __init__(
        self, host: HostRanks, command: Sequence[str], selector: selectors.BaseSelector, receiver: Receiver
    ) -> None:
        self.host = host
        self.greeted = self.done = self.closed = False
        self.code = 0
        self.complaints: list[str] = []
        self._selector, self._receiver = selector, receiver
        self._sending = threading.Lock()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=prepared(parting=signal.SIGTERM),  # noqa: PLW1509  # it takes no lock
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        self._answers = self._follow(self._process.stdout, self._hear)
        self._errors = self._follow(self._process.stderr, self._complain)

    def send(self, message: Message | None = None) -> None:
        """Sends the agent a message; without one, a sign of life."""
        assert self._process.stdin is not None
        with self._sending, contextlib.suppress(OSError, ValueError):  # its end is an event of its own
            self._process.stdin.write(line_of(message) if message else b"\n")
            self._process.stdin.flush()

    def hang_up(self) -> None:
        """Closes the line: the agent ends its ranks, then itself."""
        assert self._process.stdin is not None
        with self._sending, contextlib.suppress(OSError):
            self._process.stdin.close()

    def end(self, number: int = signal.SIGKILL) -> None:
        """Ends the process here; a remote agent finds its line closed."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def close(self) -> None:
        """Ends and reaps the process, whatever it does."""
        self.hang_up()
        self.end()
        self._process.wait()
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()

    def _follow(self, pipe: IO[bytes], take: Callable[[list[bytes]], None]) -> WholeLines:
        lines = WholeLines(pipe, take, LONGEST_MESSAGE)
        self._selector.register(pipe, selectors.EVENT_READ, lambda: self._read(lines))
        return lines

    def _read(self, lines: WholeLines) -> None:
        if lines.pump():
            return
        self._selector.unregister(lines.pipe)
        lines.pipe.close()
        if self._answers.pipe.closed and not self.closed:
            self._end()

    def _end(self) -> None:
        """Notes the end of the line, when the process has had its last word."""
        self.closed = True
        self.hang_up()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.end()
            self._process.wait()
        self.code = self._process.returncode
        if not self._errors.pipe.closed:
            self._errors.pump()
        self._receiver.lost(self)

    def _hear(self, lines: list[bytes]) -> None:
        for line in lines:
            try:
                self._take(line)
            except UnknownLine:
                self._complain([line])

    def _take(self, line: bytes) -> None:
        if line.startswith(GREETING):
            greeting = message_of(line.removeprefix(GREETING))
            self.greeted = True
            self._receiver.hear(self, {"greeting": greeting})
        elif not self.greeted:
            return  # a login shell's
        elif line.startswith(EVENT):
            message = message_of(line.removeprefix(EVENT))
            self.done = self.done or bool(message.get("done"))
            self._receiver.hear(self, message)
        else:
            self._receiver.print(self, *output_of(line))

    def _complain(self, lines: list[bytes]) -> None:
        texts = (line.decode(errors="replace").strip() for line in lines)
        self.complaints = [*self.complaints, *filter(None, texts)][-KEPT_LINES:]


def command_for(
    host: HostRanks,
    ssh: str,
    python: str | None,
    env: Mapping[str, str],
    module: str = AGENT,
    connect_s: int = CONNECT_S,
) -> list[str]:
    """The words that start a module on the host: on this host the module itself, elsewhere `ssh` with the host's name
    (or in the place of {host}) and a shell's command, in which is nothing that others may not read."""
    if host.local:
        return [sys.executable, "-m", module]
    path = env.get("PYTHONPATH")
    found = ["env", "PYTHONPATH=" + path] if path else []
    agent = shlex.join(["exec", *found, python or sys.executable, "-m", module])
    words = shlex.split(ssh)
    if any("{host}" in word for word in words):
        return [*(word.replace("{host}", host.name) for word in words), agent]
    if Path(words[0]).name == SSH:
        options = (*SSH_OPTIONS, f"ConnectTimeout={connect_s}")
        words = [*words, "-T", *(word for option in options for word in ("-o", option))]
    return [*words, host.name, agent]
