"""The soak on one rank: chapter after chapter, until the time is over or something is wrong."""

from __future__ import annotations

import faulthandler
import gc
import pickle
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.soak import through_torch
from tests.runtime.soak.figures import Figures, figures, grown, slots_open
from tests.runtime.soak.load import die_with
from tests.runtime.soak.player import Player, Wrong
from tests.runtime.soak.script import CALLS, MIXES, mix_of, steps
from tests.runtime.soak.through_torch import TorchPlayer
from tests.runtime.soak.values import Tables

PROGRESS_S = 10.0
LOOKS = 4
"""Looks of which the one with the least memory counts."""
SILENCE_FACTOR = 3.0
"""Timeouts without the end of a chapter after which a rank prints its position and ends: no wait lasts as long."""


@dataclass(frozen=True)
class SoakSettings:
    """Parameters of a soak of one world; the same on all ranks. Growth counts from the resources after `warm_s`, and
    from those half way. `threads` of each rank have a group and a script of their own. `folder`: where ranks meet that
    call torch.distributed; "" for those that call ringtree."""

    seconds: float
    warm_s: float
    seed: int
    mix: str = "all"
    first: int = 0
    timeout_s: float = 60.0
    progress: bool = True
    threads: int = 1
    folder: str = ""

    @property
    def half_s(self) -> float:
        """When half of the time is over."""
        return max(self.seconds / 2, self.warm_s)


@dataclass
class Report:
    """How a rank's soak went. `cpu_s`: of all its threads. `warm`, `half`: the most of each until then; `most`: at any
    time. `wrong` is "" where nothing was."""

    rank: int
    calls: int = 0
    calls_by_mix: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MIXES, 0))
    took_s: float = 0.0
    cpu_s: float = 0.0
    warm: Figures | None = None
    half: Figures | None = None
    most: Figures | None = None
    end: Figures | None = None
    wrong: str = ""


class Soak:
    def __init__(
        self, world: Communicator, parameters: SoakSettings, tables: Tables, at: NDArray[np.int64], thread: int = 0
    ) -> None:
        self._world, self._parameters, self._at, self._thread = world, parameters, at, thread
        self._player = TorchPlayer(world, tables) if parameters.folder else Player(world, tables)
        self.report = Report(world.rank)
        self._lately: deque[Figures] = deque(maxlen=LOOKS)

    def run(self) -> None:
        """Chapters until the time is over; raises where something is wrong."""
        begun = printed_s = time.monotonic()
        begun_cpu_s, seed = time.process_time(), self._parameters.seed + self._thread
        chapter = first = self._parameters.first // CALLS
        once = len(MIXES) if self._parameters.mix == "all" else 1  # chapters until all has been set up that ever is
        while not self._over(begun):
            faulthandler.dump_traceback_later(SILENCE_FACTOR * self._parameters.timeout_s, exit=True)
            mix = mix_of(seed, chapter, self._parameters.mix)
            for number, step in enumerate(steps(seed, chapter, mix), chapter * CALLS):
                if self._thread == 0:
                    self._at[self._world.rank] = number
                self._player.step(number, step)
                self.report.calls += 1
                self.report.calls_by_mix[mix] += 1
            self._player.end_chapter(chapter)
            chapter += 1
            now = time.monotonic()
            self.report.took_s, self.report.cpu_s = now - begun, time.process_time() - begun_cpu_s
            if self._thread:
                continue
            all_set_up, took_s = chapter - first >= once, now - begun
            self._look(all_set_up and took_s > self._parameters.warm_s, all_set_up and took_s > self._parameters.half_s)
            if self._parameters.progress and self._world.rank == 0 and now - printed_s > PROGRESS_S:
                printed_s = now
                print(f"{self._world.size} ranks: {self.brief()}", flush=True)
        faulthandler.cancel_dump_traceback_later()

    def brief(self) -> str:
        """How far it is, as a line."""
        calls, took_s = self.report.calls, self.report.took_s
        return f"{took_s:5.0f} s, {calls:9,} calls, {calls / max(took_s, 1e-9):6,.0f} a second; {self.report.end}"

    def place(self) -> str:
        """Where this rank is in the script, and what it holds there."""
        number, step = self._player.doing
        return f"call {number:,}, {step}, {slots_open(self._player.open())} staging slots open"

    def _over(self, begun: float) -> bool:
        """Whether the time is over by rank 0's clock."""
        over = np.array([time.monotonic() - begun >= self._parameters.seconds])
        self._player.doing = self._player.doing[0], "rank 0 broadcasts whether the time is over"
        return bool(self._world.broadcast(over, 0)[0])

    def _look(self, warm: bool, half: bool) -> None:
        """Notes what this rank holds; raises where that has grown. `warm`, `half`: whether it is past these times."""
        report, now = self.report, self._figures()
        report.end = now
        self._lately.append(now)
        report.most = now if report.most is None else report.most.most(now)
        if report.warm is None or not warm:
            report.warm = report.most
        if report.half is None or not half:
            report.half = report.most
        if self._grown():
            gc.collect()  # what only waits for the collector is no leak
            report.end = self._lately[-1] = self._figures()
            if wrong := self._grown():
                raise Wrong(wrong)

    def _figures(self) -> Figures:
        """Of all threads, but for the calls."""
        return figures([self._world], self.report.calls, self._player.groups_of_torch)

    def _grown(self) -> str:
        report, parameters = self.report, self._parameters
        assert report.warm is not None and report.half is not None and report.end is not None
        settled = report.end.with_least_memory(self._lately)
        return grown(report.warm, report.half, settled, parameters.threads, bool(parameters.folder))


@dataclass(frozen=True)
class Link:
    """Shared by ranks and the process `parent` that forked them: each rank's call, also of one that dies, and a
    pipe each for the report."""

    parent: int
    at: NDArray[np.int64]
    pipes: list[int]


def soak(world: Communicator, parameters: SoakSettings, tables: Tables, link: Link) -> None:
    """A rank's whole life; its report goes into its pipe, whatever happens."""
    die_with(link.parent)
    report = Report(world.rank)
    try:
        if parameters.folder:
            through_torch.begin(world, Path(parameters.folder), parameters.timeout_s)
        groups = [world, *(world.duplicate() for _ in range(parameters.threads - 1))]
        if parameters.threads == 1:
            report = _live(groups, parameters, tables, link, 0)
        else:
            with ThreadPoolExecutor(parameters.threads) as threads:
                lives = [
                    threads.submit(_live, groups, parameters, tables, link, thread) for thread in range(len(groups))
                ]
            report = _together([life.result() for life in lives])
        if parameters.folder and not report.wrong:
            through_torch.end()
    except Exception as error:  # noqa: BLE001  # whatever it is, it is what was looked for
        report.wrong = f"rank {world.rank} of {world.size} at the beginning or the end: {type(error).__name__}: {error}"
        world.abort("its soak failed")
    faulthandler.cancel_dump_traceback_later()
    with open(link.pipes[world.rank], "wb") as pipe:
        pickle.dump(report, pipe)


def _live(groups: list[Communicator], parameters: SoakSettings, tables: Tables, link: Link, thread: int) -> Report:
    """One thread's part, in its group."""
    group = groups[thread]
    life, report = None, Report(group.rank)
    try:
        life = Soak(group, parameters, tables, link.at, thread)
        report = life.report
        life.run()
    except Exception as error:  # noqa: BLE001  # as in `soak`
        where = "at the beginning" if life is None else f"at {life.place()}"
        if thread:
            where = f"in thread {thread}, {where}"
        reason = str(error) if isinstance(error, Wrong) else f"{type(error).__name__}: {error}"
        report.wrong = f"rank {group.rank} of {group.size} {where}: {reason}"
        for each in groups:
            each.abort("its soak failed")
    return report


def _together(reports: list[Report]) -> Report:
    """Of all threads of a rank: the first one's, with the calls and errors of all."""
    whole = reports[0]
    for other in reports[1:]:
        whole.calls += other.calls
        for mix, calls in other.calls_by_mix.items():
            whole.calls_by_mix[mix] += calls
    whole.wrong = "\n".join(report.wrong for report in reports if report.wrong)
    return whole
