"""The agents of a job's hosts, as the launcher sees them: questions and answers, output, ends."""

from __future__ import annotations

import base64
import re
import selectors
import signal
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from ringtree.runtime.launch.hosts.cause import cause, contradiction
from ringtree.runtime.launch.hosts.clocks import AgentClocks
from ringtree.runtime.launch.hosts.link import AgentLink
from ringtree.runtime.launch.hosts.messages import BEAT_S, Message
from ringtree.runtime.launch.hosts.placement import HostRanks
from ringtree.runtime.launch.interrupts import PASSED_ON
from ringtree.runtime.launch.job import STOP_S, JobCourse, named
from ringtree.runtime.launch.printer import Printer
from ringtree.runtime.launch.rank_processes import STDOUT, turn
from ringtree.runtime.limits import start_thread
from ringtree.runtime.tracing.clocks import ClockReading

START_S = 60.0
"""Seconds that hosts have to answer while the job is set up."""
LEAVE_S = 5.0
"""Seconds without a word that agents have to end in, when all ranks have ended."""
ANSWER_S = 5.0
"""Seconds from SIGKILL until an agent that does not report its ranks' ends is given up."""
TRACE = re.compile(r"\d+\.(npz|begun|error\d{1,4})")
"""The names of files that an agent may send."""


class SetupEnded(Exception):
    """The end of a job that has not begun, by a host or by a signal."""


class Agents:
    """The links to all hosts of a job. `folder`: the place for the ranks' recordings; `prefixed`: whether host and rank
    stand before a rank's lines. A Receiver."""

    def __init__(self, selector: selectors.BaseSelector, folder: Path | None = None, *, prefixed: bool = True) -> None:
        self.job = JobCourse(self._signal, lambda rank: f" on {self.home[rank]}")
        self.links: list[AgentLink] = []
        self.signals: list[int] = []
        """The signals that have come, and are not heeded yet."""
        self.selector, self._folder, self._prefixed = selector, folder, prefixed
        self._links_events = selectors.DefaultSelector()
        self._printer = Printer(selector)
        self.marks: dict[AgentLink, str] = {}
        """Texts by which agents know those of their own host."""
        self.home: dict[int, str] = {}
        """The name of each rank's host."""
        self._answers: dict[AgentLink, Message] = {}
        self._begun = False
        self._killed_s: float | None = None
        self._unanswered: set[AgentLink] = set()
        self._heard_s = time.monotonic()
        self._over = threading.Event()
        self._clocks = AgentClocks[AgentLink]()

    def connect(self, commands: Iterable[tuple[HostRanks, list[str]]]) -> None:
        """Starts an agent on each host; returns when all have greeted. SetupEnded for one that cannot serve."""
        for host, command in commands:
            self.home.update(dict.fromkeys(host.ranks, host.name))
            self.links.append(AgentLink(host, command, self._links_events, self))
        start_thread(self._beat, "heartbeat")
        for link, answer in self._awaited(self.links).items():
            if why := contradiction(answer["greeting"]):
                raise SetupEnded(f"host {link.host.name} {why}")
            self.marks[link] = str(answer["greeting"].get("mark", ""))

    def ask(self, links: Sequence[AgentLink], message: Message) -> dict[AgentLink, Message]:
        """Each agent's answer. SetupEnded where one refuses, ends, or has not answered within START_S."""
        self._answers = {}
        for link in links:
            link.send(message)
        return self._awaited(links)

    def begin(self) -> None:
        """Counts all ranks as running from now on."""
        self._begun = True
        self.job.running.update(self.home)

    def watch(self) -> None:
        """Passes on output until all ranks have ended, and their agents."""
        while self.job.running:
            self._turn(self.job.patience_s)
        self._heard_s = time.monotonic()
        while any(not link.closed for link in self.links) and time.monotonic() < self._heard_s + LEAVE_S:
            self._turn(0.1)

    def report(self, command: str) -> int:
        """Writes how the job ended, as the command of ringtree's that has asked for it, behind all output; returns the
        exit code."""
        while not self._printer.empty:
            self._turn(self.job.patience_s)
        code = self.job.report(lambda text: self._printer.complain(text, command))
        if self._printer.lost:
            self._printer.complain(self._printer.lost, command)
        while not self._printer.empty:
            self._turn(self.job.patience_s)
        return code

    def close(self) -> None:
        """Ends all agents: first by closing the lines, so that their ranks end, then the processes here."""
        self._over.set()
        for link in self.links:
            link.hang_up()
            if not link.greeted:  # ssh still tries, or somebody asks questions
                link.end(signal.SIGTERM)
        until_s = time.monotonic() + 2 * STOP_S
        while any(not link.closed for link in self.links) and time.monotonic() < until_s:
            turn(self._links_events, 0.1)
        for link in self.links:
            link.close()
        self._printer.close()
        if self._links_events in self.selector.get_map():
            self.selector.unregister(self._links_events)
        self._links_events.close()

    def clock_readings(self, hosts: Sequence[int]) -> list[ClockReading]:
        """The hosts' clocks at the end of the job, by the number of each rank's host."""
        return self._clocks.readings({link: hosts[link.host.ranks[0]] for link in self.links})

    def hear(self, link: AgentLink, message: Message) -> None:
        """Takes the agent's greeting, an answer or an event."""
        self._heard_s = time.monotonic()
        if "ended" in message:
            self.job.ended(message["ended"], message["code"])
            self._pass_on({"do": "ended", "rank": message["ended"], "code": message["code"]}, link)
        elif "clock" in message:
            self._clocks.note(link, *message["clock"])
        elif "trace" in message:
            self._keep(message["trace"], base64.b64decode(message["data"]))
        elif "failed" in message and self._begun:
            self.job.failed(f"host {link.host.name}: {message['failed']}", 1, link.host.ranks)
        elif "done" not in message:
            self._answers[link] = message

    def _pass_on(self, order: Message, by: AgentLink) -> None:
        for link in self.links:
            if link is not by and not link.closed:
                link.send(order)

    def print(self, link: AgentLink, number: int, rank: int, text: bytes) -> None:
        """Prints a line of a rank's."""
        self._heard_s = time.monotonic()
        prefix = f"[{link.host.name}:{rank}] " if self._prefixed or number != STDOUT else ""
        self._printer.print(number, prefix, [text])

    def lost(self, link: AgentLink) -> None:
        """Notes that an agent is gone: with it all its ranks that had not ended."""
        ranks = sorted(self.job.running.intersection(link.host.ranks))
        if self._begun and (ranks or not link.done):
            why = f"reported no ends within {ANSWER_S:g} s of SIGKILL" if link in self._unanswered else cause(link)
            self.job.failed(f"host {link.host.name} {why}{f' ({named(ranks)})' if ranks else ''}", 1, ranks)

    def _awaited(self, links: Sequence[AgentLink]) -> dict[AgentLink, Message]:
        until_s = time.monotonic() + START_S
        while missing := [link for link in links if link not in self._answers]:
            for link in self.links:
                if link.closed and link not in self._answers:
                    raise SetupEnded(f"host {link.host.name} {cause(link)}")
            if self.job.signal is not None:
                raise SetupEnded
            if time.monotonic() > until_s:
                raise SetupEnded(f"host {missing[0].host.name} gave no answer within {START_S:g} s")
            self._turn(until_s - time.monotonic())
            for link, answer in self._answers.items():
                if "failed" in answer:
                    raise SetupEnded(f"host {link.host.name}: {answer['failed']}")
        return {link: self._answers[link] for link in links}

    def _turn(self, timeout_s: float | None) -> None:
        """Waits for events once. Those of the agents wait while who reads our output has much before him."""
        listens = self._links_events in self.selector.get_map()
        if not self._printer.full and not listens:
            self.selector.register(self._links_events, selectors.EVENT_READ, lambda: turn(self._links_events, 0))
        elif self._printer.full and listens:
            self.selector.unregister(self._links_events)
        turn(self.selector, timeout_s)
        if self._printer.full:
            self._heard_s = time.monotonic()
        while self.signals:
            number = self.signals.pop(0)
            if number == signal.SIGTSTP:
                self._suspend()
            elif number in PASSED_ON:
                self._signal(number)
            else:
                self.job.interrupt(number)
        self.job.check()
        self._printer.check(self.job)

    def _suspend(self) -> None:
        """Stops this process as Ctrl-Z does; agents need no sign of life meanwhile."""
        for link in self.links:
            link.send({"do": "hold"})
        signal.raise_signal(signal.SIGSTOP)
        for link in self.links:
            link.send({"do": "go on"})

    def _beat(self) -> None:
        """Signs of life, by a thread: the launcher may wait long for who reads its output. Agents whose ranks record
        answer with their time."""
        while not self._over.wait(BEAT_S):
            for link in self.links:
                link.send(self._clocks.question() if self._begun and self._folder else None)

    def _signal(self, number: int) -> None:
        if number == signal.SIGKILL:
            self._killed_s = self._killed_s or time.monotonic()
            if time.monotonic() > self._killed_s + ANSWER_S:
                self._unanswered = {link for link in self.links if not link.closed}
                for link in self._unanswered:
                    link.end()
        for link in self.links:
            link.send({"do": "signal", "number": number})

    def _keep(self, name: str, data: bytes) -> None:
        if self._folder is not None and TRACE.fullmatch(name):
            with (self._folder / name).open("ab") as file:
                file.write(data)
