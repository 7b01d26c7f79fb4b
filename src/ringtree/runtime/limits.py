"""Limits of this process, its user and its control group, for the errors that come of them."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading

LIMITS = {
    errno.EFBIG: ("RLIMIT_FSIZE", ", which bounds shared memory,", "ulimit -f"),
    errno.ENOMEM: ("RLIMIT_AS", "", "ulimit -v"),
    errno.EMFILE: ("RLIMIT_NOFILE", "", "ulimit -n"),
}
"""The limit of an error, its meaning where its name is no help, and the remedy."""
PROCESSES = ("RLIMIT_NPROC", "", "ulimit -u")
STACK_BYTES = 8 << 20
"""The stack of a thread where RLIMIT_STACK says nothing."""
MOUNTED = "/sys/fs/cgroup"


def explained(error: OSError) -> str:
    """The error in words, with the limit that it comes from and the remedy where there is one."""
    why = str(error.strerror or error)
    if error.errno == errno.EAGAIN:
        return f"{why}{_of_threads()}"
    return f"{why}{_limit(*LIMITS[error.errno])}" if error.errno in LIMITS else why


def named(what: str, error: OSError) -> OSError:
    """The error with what failed and the limit that it comes from; as it is where it comes of none."""
    if error.errno not in (errno.EAGAIN, *LIMITS):
        return error
    return OSError(error.errno, f"{what}: {explained(error)}")


def start_thread(target: Callable[[], None], name: str) -> threading.Thread:
    """A daemon thread that has started. OSError names the limit where none can be started."""
    import threading  # late: a rank without other hosts loads it with its first call

    thread = threading.Thread(target=target, name=f"ringtree {name}", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        again = OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        raise named(f"cannot start the thread of the {name}", again) from None
    return thread


def _limit(name: str, meaning: str, remedy: str) -> str:
    """ "" where there is none."""
    soft = _soft(name)
    return "" if soft is None else f" ({name}{meaning} is {soft}: raise it, {remedy})"


def _soft(name: str) -> int | None:
    """The limit of that name; None where there is none."""
    try:
        import resource  # late: other systems than Linux, where no ranks run, need not have it
    except ImportError:  # as it is without a descriptor to load it by
        return None
    soft, _ = resource.getrlimit(getattr(resource, name))
    return None if soft == resource.RLIM_INFINITY else soft


def _of_threads() -> str:
    """The limit because of which there is no further thread, or process."""
    addresses = _limit(*LIMITS[errno.ENOMEM])
    if addresses and _no_room_for_a_stack():
        return addresses
    for file, most in _full_groups():
        return f" ({file} is {most}: raise it)"
    of_user = "" if os.geteuid() == 0 else _limit(*PROCESSES)  # root is exempt
    return of_user or addresses


def _no_room_for_a_stack() -> bool:
    with contextlib.suppress(OSError, ValueError), open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        stack, most = _soft("RLIMIT_STACK"), _soft("RLIMIT_AS")
        nbytes = STACK_BYTES if stack is None else stack
        return most is not None and used + 2 * nbytes > most  # the allocator takes some with a thread
    return False


def _full_groups() -> Iterator[tuple[str, int]]:
    """The files with the limits of the control groups that have as many threads as they may, innermost first."""
    with contextlib.suppress(OSError), open("/proc/self/cgroup") as lines:
        for line in lines:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if controllers not in ("", "pids"):
                continue
            mount, inner = f"{MOUNTED}/{controllers}".rstrip("/"), path.strip("/")
            while True:  # a container hides the groups around its own, so that not all of them exist
                folder = f"{mount}/{inner}".rstrip("/")
                with contextlib.suppress(OSError, ValueError):
                    most = number_in(f"{folder}/pids.max")
                    if number_in(f"{folder}/pids.current") >= most:
                        yield f"{folder}/pids.max", most
                if not inner:
                    break
                inner = inner.rpartition("/")[0]


def number_in(path: str) -> int:
    """The number in a file. ValueError: for "max", which is no limit."""
    with open(path) as file:
        return int(file.read())
