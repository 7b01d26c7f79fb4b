"""A launcher's own standard output and standard error, on which it prints without ever waiting for who reads them."""

from __future__ import annotations

import os
import selectors
import stat
import sys
from contextlib import ExitStack, suppress
from functools import partial
from io import TextIOWrapper
from typing import TextIO

from ringtree.runtime.launch.job import JobCourse
from ringtree.runtime.launch.outbox import Outbox
from ringtree.runtime.launch.rank_processes import STDERR, STDOUT
from ringtree.runtime.launch.whole_lines import Take

NAMES = {STDOUT: "standard output", STDERR: "standard error"}


class Printer:
    """Lines go out as bytes, as a rank wrote them. A stream of the program's that is no file takes text, at once."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._opened = ExitStack()
        self._outboxes: dict[int, Outbox] = {}
        self._given_up: set[int] = set()
        self._streams: dict[int, TextIO | None] = {STDOUT: sys.stdout, STDERR: sys.stderr}
        files = {number: fd for number, stream in self._streams.items() if (fd := _file_of(stream)) is not None}
        for number, fd in files.items():
            if number == STDERR and STDOUT in files and os.path.sameopenfile(fd, files[STDOUT]):
                self._outboxes[STDERR] = self._outboxes[STDOUT]  # or parts of lines would be among the other's
            else:
                self._outboxes[number] = Outbox(self._own(fd), selector)

    def take(self, number: int, prefix: str) -> Take:
        """The function that takes a rank's lines for one of the streams."""
        return partial(self.print, number, prefix)

    def print(self, number: int, prefix: str, lines: list[bytes]) -> None:
        """Prints a rank's lines, each with the prefix, as one piece."""
        start = prefix.encode(errors="replace")
        data = b"".join(b"%b%b\n" % (start, line) for line in lines)
        if number in self._given_up:
            self._outboxes[number].dropped += len(data)
        else:
            self._write(number, data)

    def complain(self, text: str, command: str = "run") -> None:
        """Prints a line about the job on standard error, a line of its own also where a rank's was given up within."""
        outbox = self._outboxes.get(STDERR)
        end = "\n" if outbox is not None and outbox.empty and outbox.within_a_line else ""
        self._write(STDERR, f"{end}ringtree {command}: {text}\n".encode(errors="replace"))

    def _write(self, number: int, data: bytes) -> None:
        stream = self._streams[number]
        if number in self._outboxes:
            self._outboxes[number].put(data)
        elif stream is not None:
            with suppress(ValueError):  # it is closed
                stream.write(data.decode(errors="replace"))
                stream.flush()

    @property
    def empty(self) -> bool:
        """Whether all is printed."""
        return all(outbox.empty for outbox in self._outboxes.values())

    @property
    def full(self) -> bool:
        """Whether so much is to be printed that the ranks should wait."""
        return any(outbox.full for outbox in self._outboxes.values())

    def check(self, job: JobCourse) -> None:
        """Gives up a stream that nobody reads when the job's time is up. OSError where one takes nothing any more."""
        for number, outbox in self._outboxes.items():
            if (why := outbox.error) is not None:
                raise why if isinstance(why, BrokenPipeError) else OSError(why.errno, why.strerror, NAMES[number])
            if not outbox.empty and job.gives_up(outbox.stalled_s):
                self._given_up.add(number)
                outbox.drop()

    @property
    def lost(self) -> str:
        """Words for what was given up; "" where nothing was."""
        lost = sum(outbox.dropped for outbox in {*self._outboxes.values()})
        return f"{lost} bytes of the ranks' output are lost, as nobody read them" if lost else ""

    def close(self) -> None:
        """Drops what is not printed, and closes the descriptors of its own."""
        for outbox in self._outboxes.values():
            outbox.close()
        self._opened.close()

    def _own(self, fd: int) -> int:
        """A descriptor of the same pipe or terminal on which no write waits; else the given one. O_NONBLOCK on that
        would be for all who share it, as the shell."""
        mode = os.fstat(fd).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
            with suppress(OSError):  # a pipe without a reader, a terminal of another user's
                fd = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
                self._opened.callback(os.close, fd)
        return fd


def _file_of(stream: TextIO | None) -> int | None:
    """The descriptor of a stream, behind what is printed there already; None where it is no file of the system's."""
    if not isinstance(stream, TextIOWrapper):  # as a notebook's, whose descriptor is another place
        return None
    try:
        stream.flush()
        return stream.fileno()
    except ValueError:  # closed, or in memory
        return None
