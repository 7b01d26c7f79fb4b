"""The processes of a world's ranks before they have met: one that ends by then is not waited for.

Who waits looks now and then which processes are ranks of its job: those that `spawn` names, or that this process's
launcher has started. A rank that was seen, and whose process is gone, will not come, nor will one that its launcher
reports to have ended: it may have done so before anyone looked. Of other hosts there is the report alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from ringtree.errors import PeerDied
from ringtree.runtime.bootstrap.environment import ENDED_RANKS, World, detect
from ringtree.runtime.linux import of_kernel

LOOK_S = 0.1
"""Seconds between two looks for ranks that were not seen yet."""
SHARE = 20
"""The looks of a rank take a twentieth of its time at most."""
REPORT_S = 1.0
"""Seconds that a launcher gets to report the end of a rank whose process is gone."""
SUCCESS = "exited with code 0"
Find = Callable[[], dict[int, int]]
"""The processes of ranks, as far as they are known by now."""
Ended = Callable[[], dict[int, str] | None]
"""The ranks that have ended, as far as their launcher reports it, and how each has; None where nobody reports."""


class ReportedEnds:
    """The ends of ranks on any host, as their launcher reports them. `rank`: this process's, which waits for `whom`."""

    def __init__(self, find: Ended, rank: int, whom: str) -> None:
        self._find, self._rank, self._whom = find, rank, whom
        self._next_s = 0.0

    def check(self, ranks: Collection[int]) -> None:
        """Looks now and then. PeerDied: one of these ranks has ended, the first that did."""
        if ranks and time.monotonic() >= self._next_s:
            self.look(ranks)

    def look(self, ranks: Collection[int]) -> bool:
        """Looks at once, as `check`; returns whether anybody reports."""
        self._next_s = time.monotonic() + LOOK_S
        ended = self._find()
        for rank, how in (ended or {}).items():
            if rank in ranks:
                word, remedy = ("ended", "; expected ringtree.init() of every rank") if how == SUCCESS else ("died", "")
                raise PeerDied(
                    f"rank {rank} {word} (its process {how}) while rank {self._rank} waited for {self._whom}{remedy}",
                    rank,
                )
        return ended is not None


class Siblings:
    """The processes of the ranks 0 to `size` - 1, of which this one is `rank`, as `find` has them, and `ended`."""

    def __init__(self, find: Find, rank: int, size: int, ended: Ended = lambda: None) -> None:
        self._find, self._rank, self._size = find, rank, size
        self._others = {*range(size)} - {rank}
        self._reports = ReportedEnds(ended, rank, f"the group of {size} ranks")
        self._seen: dict[int, tuple[int, int]] = {}
        self._gone_s: dict[int, float] = {}
        self._next_s = 0.0

    def check(self, absent: Sequence[int] = ()) -> None:
        """The liveness check of a bootstrap: PeerDied where a rank that was seen has ended, unless another process of
        that rank is there: the one that was seen may be an earlier one. Likewise where the launcher reports an end."""
        self._look()
        self._reports.check(self._others)
        for rank, (pid, start) in list(self._seen.items()):
            if _start(pid) not in (start, None) and not self._replaced(rank, pid):
                is_reported = self._reports.look(self._others)  # another may have ended first
                gone_s = self._gone_s.setdefault(pid, time.monotonic())
                if is_reported and time.monotonic() < gone_s + REPORT_S:
                    continue  # its launcher, which knows how it has ended, is about to report it
                raise PeerDied(
                    f"rank {rank} died (process {pid} ended) while rank {self._rank} waited for the group of "
                    f"{self._size} ranks",
                    rank,
                )

    def _replaced(self, rank: int, ended: int) -> bool:
        pid = self._find().get(rank, ended)
        if pid == ended or not (start := _start(pid)):
            return False
        self._seen[rank] = pid, start
        return True

    def _look(self) -> None:
        begun_s = time.monotonic()
        if begun_s < self._next_s or len(self._seen) == self._size - 1:
            return
        for rank, pid in self._find().items():
            if rank != self._rank and rank not in self._seen and (start := _start(pid)):
                self._seen[rank] = pid, start
        now_s = time.monotonic()
        self._next_s = now_s + max(LOOK_S, SHARE * (now_s - begun_s))


class EndedRanks:
    """The launcher's report: a file in its memory, with the job, then a line for each end. `path` is "" where the
    system refuses such files."""

    def __init__(self, job: str) -> None:
        self.path = ""
        with suppress(OSError):
            self._file = os.memfd_create("ringtree-ended-ranks")
            self.path = f"/proc/{os.getpid()}/fd/{self._file}"
            self._write(job)

    def add(self, rank: int, how: str) -> None:
        """Notes the end of a rank. `how`: in words, as "exited with code 1"."""
        self._write(f"{rank} {how}")

    def close(self) -> None:
        """Gives the file up: no rank is left that reads it."""
        if self.path:
            os.close(self._file)

    def _write(self, line: str) -> None:
        if self.path:
            os.write(self._file, f"{line}\n".encode())


def started_with(world: World) -> Find:
    """Finds the ranks of this world among the processes that this one's parent has started, by their environment."""
    known: dict[int, int | None] = {os.getpid(): None}

    def find() -> dict[int, int]:
        for pid in _children(os.getppid()):
            if known.get(pid) is None and pid != os.getpid():
                known[pid] = _rank_of(pid, world)
        return {rank: pid for pid, rank in known.items() if rank is not None}

    return find


def ended_ranks(world: World) -> Ended:
    """Finds the ranks of this world that have ended, and how; None where its launcher keeps no such file, or it is out
    of reach, as in a pid namespace of the ranks' own."""
    path = os.environ.get(ENDED_RANKS, "")

    def find() -> dict[int, str] | None:
        try:
            with open(path, "rb") as file:
                text = file.read().decode()
        except (OSError, ValueError):
            return None
        job, *lines = text.split("\n")[:-1]  # the last one may be half written
        if job != world.job:  # of a job around this one
            return None
        return {int(rank): how for rank, _, how in (line.partition(" ") for line in lines)}

    return find if path else lambda: None


def reported_ends(world: World) -> ReportedEnds:
    """The ends of this world's ranks on all hosts."""
    return ReportedEnds(ended_ranks(world), world.rank, f"the job of {world.size} ranks")


def _rank_of(pid: int, world: World) -> int | None:
    """The rank of a process in this world; None where it is none of its ranks, or not yet: a process has the
    environment of its parent until it becomes the program."""
    with suppress(OSError, ValueError):
        with open(f"/proc/{pid}/environ", "rb") as file:
            words = os.fsdecode(file.read()).split("\0")
        other = detect(dict(word.split("=", 1) for word in words if "=" in word), meets=True)
        if (other.job, other.size, other.launcher) == (world.job, world.size, world.launcher):
            return other.rank
    return None


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError), open(f"/proc/{pid}/task/{task}/children") as file:
                found += map(int, file.read().split())
    return found


def _start(pid: int) -> int | None:
    """The start of the process, in clock ticks after boot; 0 if there is none, or only a zombie; None where that cannot
    be seen, for want of a descriptor."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()  # the name before it may hold anything
    except (FileNotFoundError, ProcessLookupError):
        return 0
    except OSError as error:
        if not of_kernel(error):
            raise
        return None
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])
