"""The soak on one rank: chapter after chapter, until the time is over or something is wrong."""

from __future__ import annotations

import faulthandler
import pickle
import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.soak.figures import Figures, figures, grown, slots_open
from tests.runtime.soak.load import die_with
from tests.runtime.soak.player import Player, Wrong
from tests.runtime.soak.script import CALLS, MIXES, mix_of, steps
from tests.runtime.soak.values import Tables

PROGRESS_S = 10.0
SILENCE_FACTOR = 3.0
"""Timeouts without the end of a chapter after which a rank prints its position and ends: no wait lasts as long."""


@dataclass(frozen=True)
class SoakSettings:
    """Parameters of a soak of one world; the same on all ranks. Growth counts from the resources after `warm_s`."""

    seconds: float
    warm_s: float
    seed: int
    mix: str = "all"
    first: int = 0
    timeout_s: float = 60.0
    progress: bool = True


@dataclass
class Report:
    """How a rank's soak went. `cpu_s`: of all its threads. `wrong` is "" where nothing was."""

    rank: int
    calls: int = 0
    calls_by_mix: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MIXES, 0))
    took_s: float = 0.0
    cpu_s: float = 0.0
    warm: Figures | None = None
    most: Figures | None = None
    end: Figures | None = None
    wrong: str = ""


class Soak:
    def __init__(self, world: Communicator, parameters: SoakSettings, tables: Tables, at: NDArray[np.int64]) -> None:
        self._world, self._parameters, self._at = world, parameters, at
        self._player = Player(world, tables)
        self.report = Report(world.rank)

    def run(self) -> None:
        """Chapters until the time is over; raises where something is wrong."""
        begun = printed_s = time.monotonic()
        begun_cpu_s = time.process_time()
        chapter = first = self._parameters.first // CALLS
        once = len(MIXES) if self._parameters.mix == "all" else 1  # chapters until all has been set up that ever is
        while not self._over(begun):
            faulthandler.dump_traceback_later(SILENCE_FACTOR * self._parameters.timeout_s, exit=True)
            mix = mix_of(self._parameters.seed, chapter, self._parameters.mix)
            for number, step in enumerate(steps(self._parameters.seed, chapter, mix), chapter * CALLS):
                self._at[self._world.rank] = number
                self._player.step(number, step)
                self.report.calls += 1
                self.report.calls_by_mix[mix] += 1
            self._player.end_chapter(chapter)
            chapter += 1
            now = time.monotonic()
            self.report.took_s, self.report.cpu_s = now - begun, time.process_time() - begun_cpu_s
            self._look(warm=now - begun > self._parameters.warm_s and chapter - first >= once)
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

    def _look(self, warm: bool) -> None:
        """Notes what this rank holds; raises where that has grown."""
        report, now = self.report, figures([self._world])
        report.end = now
        if report.warm is None or not warm:
            report.warm = now if report.warm is None else report.warm.most(now)
        report.most = now if report.most is None else report.most.most(now)
        if wrong := grown(report.warm, now):
            raise Wrong(wrong)


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
    life, report = None, Report(world.rank)
    try:
        life = Soak(world, parameters, tables, link.at)
        report = life.report
        life.run()
    except Exception as error:  # noqa: BLE001  # whatever it is, it is what was looked for
        where = "at the beginning" if life is None else f"at {life.place()}"
        reason = str(error) if isinstance(error, Wrong) else f"{type(error).__name__}: {error}"
        report.wrong = f"rank {world.rank} of {world.size} {where}: {reason}"
        world.abort("its soak failed")
    faulthandler.cancel_dump_traceback_later()
    with open(link.pipes[world.rank], "wb") as pipe:
        pickle.dump(report, pipe)
