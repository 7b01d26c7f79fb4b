"""Python stacks of other processes: by py-spy where it is installed, else by a signal that a rank has agreed to.

A rank that is started with RINGTREE_STACK_SIGNAL answers that signal by writing the stacks of its threads into a memfd
of its own, whatever it does: faulthandler writes them in the signal's handler, without the interpreter's lock. The
memfd's name says which signal, and who may open it is the kernel's rule for /proc.
"""

from __future__ import annotations

import faulthandler
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress

from ringtree.runtime.observing.own_processes import PROC

VARIABLE = "RINGTREE_STACK_SIGNAL"
SIGNALS = {"SIGUSR1": signal.SIGUSR1, "SIGUSR2": signal.SIGUSR2} if hasattr(signal, "SIGUSR1") else {}
NAME = "ringtree-stacks-"
"""The beginning of the memfd's name; the signal's number follows."""
LOOK_S, QUIET_S, LONGEST_S = 0.01, 0.1, 3.0
"""Seconds between two looks; without more text, which is the end of it; at most."""
MOST_BYTES = 1 << 20
PY_SPY_S = 20.0

_OF_A_LIBRARY, _INNERMOST = re.compile(r" \([^()]*\.so[.\w]*\)\s*$"), re.compile(r"<[^<>()]*>|\([^<>()]*\)")
"""The end of a line of a function that is not Python's; arguments, or those of a template, without others in them."""

_written: list[int] = []
"""The descriptor that this process's stacks go to."""


class NoStack(RuntimeError):
    """Why there is no stack, in one line."""


def chosen_signal(env: Mapping[str, str]) -> signal.Signals | None:
    """The signal that a rank's stacks are asked for by; None without the variable. ValueError for one that is none."""
    name = env.get(VARIABLE, "")
    if name and name not in SIGNALS:
        raise ValueError(f"{VARIABLE} is {name!r}; expected SIGUSR1 or SIGUSR2")
    return SIGNALS.get(name)


def answer_signal(env: Mapping[str, str] = os.environ) -> None:
    """Has this process answer the signal that the variable names, from now on. ValueError: where it is none, or the
    program handles that signal itself."""
    number = chosen_signal(env)
    if number is None or _written:
        return
    if signal.getsignal(number) not in (signal.SIG_DFL, None):
        raise ValueError(f"{VARIABLE} is {number.name!r}, which this program handles itself; expected another signal")
    descriptor = os.memfd_create(f"{NAME}{int(number)}", os.MFD_CLOEXEC)
    faulthandler.register(number, file=descriptor, all_threads=True, chain=False)
    _written.append(descriptor)


def python_stacks(pid: int, native: bool = False) -> str:
    """The stacks of a process's threads as text; `native`: with C and C++ frames, which py-spy alone has. NoStack where
    neither way works."""
    spy = _py_spy()
    why = "py-spy is not installed"
    if spy is not None:
        try:
            return _by_py_spy(spy, pid, native)
        except NoStack as error:
            why = str(error)
    if native:
        raise NoStack(f"no C++ stack: {why}")
    try:
        return _by_signal(pid)
    except NoStack as error:
        raise NoStack(f"no stack: {why}, and {error}") from None


def _py_spy() -> str | None:
    return shutil.which("py-spy") or shutil.which("py-spy", path=os.path.dirname(sys.executable))


def _by_py_spy(spy: str, pid: int, native: bool) -> str:
    command = [spy, "dump", "--pid", str(pid), *(["--native"] if native else [])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=PY_SPY_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoStack(f"py-spy did not answer ({type(error).__name__})") from None
    if done.returncode != 0:
        reason = next((line for line in done.stderr.splitlines() if line.strip()), f"code {done.returncode}")
        raise NoStack(f"py-spy failed ({reason.removeprefix('Error: ').strip()})")
    return "".join(map(_short, done.stdout.splitlines(keepends=True)))


def _short(frame: str) -> str:
    """A line of a stack, without the types that a function of C++ takes: those may have thousands of letters."""
    if not (library := _OF_A_LIBRARY.search(frame)):
        return frame
    name = frame[: library.start()]
    while (shorter := _INNERMOST.sub("", name)) != name:
        name = shorter
    return name + library[0]


def _by_signal(pid: int) -> str:
    path, number = _memory_of(pid)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise NoStack(f"its answers cannot be read ({error.strerror})") from None
    try:
        before = os.fstat(descriptor).st_size
        if not _catches(pid, number):  # it would end the process
            raise NoStack(f"it no longer answers signal {number}")
        os.kill(pid, number)
        size, begun, changed = before, time.monotonic(), time.monotonic()
        while (now := time.monotonic()) < begun + LONGEST_S and (size == before or now < changed + QUIET_S):
            time.sleep(LOOK_S)
            if (grown := os.fstat(descriptor).st_size) != size:
                size, changed = grown, now
        if size == before:
            raise NoStack(f"it did not answer signal {number} within {LONGEST_S:g} s (is it stopped?)")
        return os.pread(descriptor, min(size - before, MOST_BYTES), before).decode(errors="replace")
    except ProcessLookupError:
        raise NoStack("it has ended") from None
    finally:
        os.close(descriptor)


def _memory_of(pid: int) -> tuple[str, int]:
    """The path of the memfd that a process's stacks go to, and the number of the signal."""
    with suppress(OSError):
        for descriptor in os.listdir(f"{PROC}/{pid}/fd"):
            path = f"{PROC}/{pid}/fd/{descriptor}"
            with suppress(OSError, ValueError):
                link = os.readlink(path)
                if link.startswith(f"/memfd:{NAME}"):
                    return path, int(link.removeprefix(f"/memfd:{NAME}").removesuffix(" (deleted)"))
    raise NoStack(f"the rank was started without {VARIABLE}=SIGUSR1")


def _catches(pid: int, number: int) -> bool:
    with suppress(OSError, ValueError, StopIteration), open(f"{PROC}/{pid}/status") as lines:
        caught = next(line for line in lines if line.startswith("SigCgt:"))
        return bool(int(caught.split()[1], 16) >> (number - 1) & 1)
    return False
