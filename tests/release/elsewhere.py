"""`python elsewhere.py darwin|win32 "COMMAND…" …`: commands of ringtree on a Python as that system has it.

Simulated: the name of the system, the missing functions of os, signal and socket, the missing modules, and no engine.
Files, processes and terminals are still Linux's.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing.connection
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Sequence
from importlib.machinery import ModuleSpec

import numpy
import rich.console
import rich.progress
import rich.table

LOADED = (concurrent.futures, multiprocessing, platform, subprocess, tempfile, urllib.request, numpy, rich)
"""Modules of others that ask on import which system this is."""
NOT_ON_MACOS = {os: "memfd_create sched_getaffinity sched_setaffinity pidfd_open posix_fallocate eventfd"}
NOT_ON_WINDOWS = {
    os: NOT_ON_MACOS[os] + " fork register_at_fork getuid geteuid uname killpg setsid setpgid getpgid waitid P_PID "
    "WEXITED WNOWAIT CLD_EXITED O_CLOEXEC getloadavg sysconf mkfifo",
    signal: "SIGKILL SIGHUP SIGUSR1 SIGUSR2 SIGALRM SIGCHLD SIGQUIT SIGTTOU SIGPIPE pthread_sigmask setitimer",
    socket: "AF_UNIX send_fds recv_fds SCM_RIGHTS socketpair",
}
MODULES = {"darwin": (), "win32": ("fcntl", "resource", "termios", "pwd", "grp", "pty", "tty")}


class Missing:
    """A finder that finds what the system lacks before anything else does, and has none of it."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = {*names, "ringtree._native"}

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name in self._names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def pretend(system: str) -> None:
    for module, names in {"darwin": NOT_ON_MACOS, "win32": NOT_ON_WINDOWS}[system].items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    for name in MODULES[system]:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Missing(MODULES[system]))
    sys.platform = system
    name = {"darwin": "Darwin", "win32": "Windows"}[system]
    platform.system = lambda: name


if __name__ == "__main__":
    pretend(sys.argv[1])
    import ringtree
    from ringtree.cli import main

    if sys.argv[2] == "init":
        ringtree.init()
    elif sys.argv[2] == "spawn":
        ringtree.spawn(print, 2)
    else:
        failed = [f"{line}: exit code {code}" for line in sys.argv[2:] if (code := main(line.split()))]
        sys.exit("\n".join(failed) or 0)
