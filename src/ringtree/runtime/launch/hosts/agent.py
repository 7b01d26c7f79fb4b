"""A host's part of `ringtree run --hosts`: it starts the host's ranks, passes on their output, and reports their ends.

The launcher speaks over standard input, the agent answers over standard output. When the launcher's end closes, or is
silent for SILENCE_S, the agent ends all its ranks: it outlives no launcher.
"""

from __future__ import annotations

import base64
import json
import os
import select
import selectors
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import ringtree
from ringtree.runtime.bootstrap.environment import ADDRESS, ENDED_RANKS, SECRET, TRACE_FOLDER
from ringtree.runtime.bootstrap.local.siblings import EndedRanks
from ringtree.runtime.launch.hosts.messages import GREETING, LONGEST_MESSAGE, SILENCE_S, Message, event, line_of, output
from ringtree.runtime.launch.hosts.neighbours import HostMark
from ringtree.runtime.launch.hosts.reachable import Doorway, check_interface, reached
from ringtree.runtime.launch.interrupts import interrupts
from ringtree.runtime.launch.job import STOP_S, ending
from ringtree.runtime.launch.outbox import Outbox
from ringtree.runtime.launch.program import resolve
from ringtree.runtime.launch.rank_processes import RankProcesses, turn
from ringtree.runtime.launch.torch_variables import StorePort
from ringtree.runtime.launch.whole_lines import Take, WholeLines

PIECE = 1 << 18
"""Bytes of a trace file in one message."""


class Agent:
    """The ranks of this host, and the line to the launcher: `given` and `answers` are its descriptors."""

    def __init__(self, given: int, answers: int) -> None:
        self._given = given
        self._control = selectors.DefaultSelector()
        self._ranks_events = selectors.DefaultSelector()
        os.set_blocking(answers, False)
        self._out = Outbox(answers, self._control)
        self._ranks = RankProcesses(self._ranks_events, self._take, self._ended)
        self._orders = WholeLines(os.fdopen(given, "rb", buffering=0), self._obey_all, LONGEST_MESSAGE)
        self._words: list[str] = []
        self._doorway: Doorway | None = None
        self._mark = HostMark()
        self._store: StorePort | None = None
        self._ends: EndedRanks | None = None
        self._traces: TemporaryDirectory[str] | None = None
        self._started = self._finished = self._held = False
        self._heard_s = time.monotonic()
        self._parting = iter((signal.SIGTERM, signal.SIGKILL))
        self._deadline_s: float | None = None
        """The time of the next signal to ranks that no launcher wants any more; None while there is one."""

    def run(self) -> int:
        """Serves the launcher until all ranks have ended, or the launcher is gone; returns the exit code."""
        self._control.register(self._given, selectors.EVENT_READ, self._hear)
        greeting = {"version": ringtree.__version__, "pid": os.getpid(), "mark": self._mark.text}
        self._out.put(b"\n" + GREETING + line_of(greeting))
        try:
            with interrupts(lambda number: self._abandon(), self._control):
                while not self._over():
                    self._listen_to_ranks(not self._out.full)
                    turn(self._control, self._patience_s())
                    self._check()
        finally:
            self._ranks.stop()
            self._mark.close()
            if self._store:
                self._store.close()
            if self._ends:
                self._ends.close()
            if self._traces:
                self._traces.cleanup()
        return 0 if self._deadline_s is None else 1

    def _listen_to_ranks(self, listens: bool) -> None:
        """Reads the ranks' output and ends, or lets them wait."""
        if listens and self._ranks_events not in self._control.get_map():
            self._control.register(self._ranks_events, selectors.EVENT_READ, lambda: turn(self._ranks_events, 0))
        elif not listens and self._ranks_events in self._control.get_map():
            self._control.unregister(self._ranks_events)

    def _over(self) -> bool:
        if self._deadline_s is not None:
            return not self._ranks.running
        return self._finished and self._out.empty

    def _patience_s(self) -> float | None:
        if self._deadline_s is not None:
            return max(self._deadline_s - time.monotonic(), 0)
        return None if self._held else max(self._heard_s + SILENCE_S - time.monotonic(), 0)

    def _check(self) -> None:
        now_s = time.monotonic()
        if self._out.error or (not self._held and now_s > self._heard_s + SILENCE_S):
            self._abandon()
        if self._deadline_s is not None and now_s >= self._deadline_s:
            self._ranks.send(next(self._parting, signal.SIGKILL))
            self._deadline_s = now_s + STOP_S
        elif self._deadline_s is None and self._started and not self._finished and not self._ranks.running:
            self._finish()

    def _abandon(self) -> None:
        """No launcher is there any more: ends the ranks."""
        if self._deadline_s is None:
            self._deadline_s = time.monotonic()
            self._out.close()

    def _hear(self) -> None:
        self._heard_s = time.monotonic()
        if not self._orders.pump():
            self._control.unregister(self._given)
            self._abandon()

    def _obey_all(self, lines: list[bytes]) -> None:
        for line in filter(None, lines):
            order = json.loads(line)
            try:
                answer = self._obey(order)
            except (OSError, ValueError, RuntimeError) as error:
                answer = {"failed": str(error)}
            if answer is not None:
                self._out.put(event(answer))

    def _obey(self, order: Message) -> Message | None:
        does: dict[str, Callable[[Message], Message | None]] = {
            "prepare": self._prepare,
            "probe": lambda order: {"reached": reached(order["addresses"], order["port"], order["token"])},
            "start": self._start,
            "ended": lambda order: self._note(order["rank"], order["code"]),
            "signal": lambda order: self._ranks.send(order["number"]),
            "hold": self._hold,
            "go on": self._go_on,
            "clock": lambda order: {"clock": [order["asked_s"], time.monotonic()]},
        }
        return does[order["do"]](order)

    def _prepare(self, order: Message) -> Message:
        """Finds the program, and with `several`, where hosts reach each other, the interface; with `first`, on rank 0's
        host, keeps a port for torch's store, and with `doorway` opens one that agents of other hosts try."""
        os.environ.update(order["env"])
        try:
            os.chdir(order["folder"])
        except OSError as error:
            raise ValueError(f"no folder {order['folder']} there ({error.strerror}), in which to run") from None
        os.environ["PWD"] = order["folder"]
        try:
            self._words = resolve(order["command"], order["module"])
        except ValueError as error:
            raise ValueError(f"{error} (in {order['folder']})") from None
        if order.get("several"):
            check_interface()
        answer: Message = {"words": self._words, "alike": self._mark.alike(order.get("marks", []))}
        if order["first"]:
            self._store = StorePort()
            answer["store_port"] = self._store.number
        if order["doorway"]:
            self._doorway = Doorway(self._control)
            answer |= self._doorway.contact()
        return answer

    def _start(self, order: Message) -> None:
        env = {**os.environ, **order["env"], SECRET: order["secret"]}
        for name in (TRACE_FOLDER, ADDRESS):
            env.pop(name, None)  # of another job
        if order["address"]:
            env[ADDRESS] = order["address"]
        if order["trace"]:
            self._traces = TemporaryDirectory(prefix="ringtree-trace-")
            env[TRACE_FOLDER] = self._traces.name
        if self._doorway:
            self._doorway.keep(order["address"])
        self._ends = EndedRanks(env["RINGTREE_JOB"])
        env[ENDED_RANKS] = self._ends.path
        beside = order.get("beside") or order["ranks"]
        self._ranks.start(self._words, order["ranks"], env, beside=beside, begun=lambda rank: self._wanted())
        self._started = True

    def _wanted(self) -> bool:
        """Whether the launcher's end is open still: a look between the starts of many ranks."""
        given = select.poll()
        given.register(self._given, 0)
        return not given.poll(0)  # of what nobody asked for only a closed end is reported

    def _hold(self, order: Message) -> None:
        """The launcher is about to be suspended: its silence is none, also after a late sign of life."""
        self._held = True

    def _go_on(self, order: Message) -> None:
        """The launcher was suspended, and is not any more."""
        self._held = False

    def _take(self, rank: int, number: int) -> Take:
        def take(lines: list[bytes]) -> None:
            for line in lines:
                self._out.put(output(number, rank, line))

        return take

    def _ended(self, rank: int, code: int) -> None:
        self._note(rank, code)
        self._out.put(event({"ended": rank, "code": code}))

    def _note(self, rank: int, code: int) -> None:
        """Reports the end of a rank, here or on another host, to the ranks here that may wait for it."""
        if self._ends:
            self._ends.add(rank, ending(code))

    def _finish(self) -> None:
        self._ranks.drain()
        for path in sorted(Path(self._traces.name).iterdir()) if self._traces else ():
            data = path.read_bytes()
            for start in range(0, max(len(data), 1), PIECE):
                piece = base64.b64encode(data[start : start + PIECE]).decode()
                self._out.put(event({"trace": path.name, "data": piece}))
        self._out.put(event({"done": True}))
        self._finished = True


def main() -> int:
    """Serves the launcher at the other end of standard input and output."""
    if sys.path and sys.path[0] == os.getcwd():
        del sys.path[0]  # `python -m` puts it there; the ranks run elsewhere
    given, answers = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.dup2(2, 1)  # the line to the launcher is for messages alone
    return Agent(given, answers).run()


if __name__ == "__main__":
    sys.exit(main())
