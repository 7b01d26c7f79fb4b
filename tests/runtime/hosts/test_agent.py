"""A host's agent alone, as its launcher speaks to it: silence, suspension, refusals."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ringtree.runtime.launch.hosts.messages import EVENT, GREETING, Message, line_of
from tests.waiting import until

SILENCE_S = 0.5
AGENT = """
import sys
from ringtree.runtime.launch.hosts import agent
agent.SILENCE_S, agent.STOP_S = float(sys.argv[1]), 0.2
sys.exit(agent.main())
"""


class Spoken:
    """An agent, and a launcher's side of its line."""

    def __init__(self, silence_s: float) -> None:
        words = [sys.executable, "-c", AGENT, str(silence_s)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin is not None and self.process.stdout is not None
        self._given, self._answers = self.process.stdin, self.process.stdout

    def send(self, message: Message | None = None) -> None:
        """Sends a message, or a sign of life."""
        self._given.write(line_of(message) if message else b"\n")
        self._given.flush()

    def hang_up(self) -> None:
        self._given.close()

    def next(self, beginning: bytes) -> bytes:
        """The rest of the next line that begins so."""
        line = next(line for line in self._answers if line.startswith(beginning))
        return line.removeprefix(beginning).rstrip(b"\n")

    def start(self, *command: str, ranks: int = 1, **fields: object) -> None:
        """Starts ranks."""
        prepare = {"do": "prepare", "folder": "/", "command": command, "module": False, "env": {}}
        prepare |= {"first": False, "doorway": False}
        self.send(prepare | fields)
        env = {"RINGTREE_JOB": "here", "RINGTREE_WORLD_SIZE": str(ranks)}
        job: dict[str, Any] = {"env": env, "secret": "s", "address": "", "trace": False}
        self.send({"do": "start", "ranks": list(range(ranks)), **job})


@pytest.fixture
def agent(request: pytest.FixtureRequest) -> Iterator[Spoken]:
    made = Spoken(SILENCE_S if "silent" in request.node.name else 1000.0)
    with made.process:
        yield made
        made.process.kill()


DEAF = "trap '' TERM; echo $$; while :; do sleep 1; done"


def test_a_line_that_closes_ends_the_ranks(agent: Spoken) -> None:
    agent.start("sh", "-c", DEAF)
    rank = int(agent.next(b"1 0 "))
    agent.hang_up()
    assert agent.process.wait() == 1
    until(lambda: not Path(f"/proc/{rank}").exists())


def test_a_line_that_closes_ends_the_start_of_ranks(agent: Spoken, tmp_path: Path) -> None:
    agent.start("sh", "-c", f"touch {tmp_path}/$RINGTREE_RANK; sleep 1000", ranks=3000)
    agent.hang_up()
    assert agent.process.wait(60) == 1
    assert len(list(tmp_path.iterdir())) < 1000


def test_a_silent_launcher_is_taken_as_gone(agent: Spoken) -> None:
    agent.start("sh", "-c", DEAF)
    rank = int(agent.next(b"1 0 "))
    assert agent.process.wait() == 1
    until(lambda: not Path(f"/proc/{rank}").exists())


def test_a_suspended_launcher_may_be_silent(agent: Spoken) -> None:
    agent.start("sh", "-c", "echo begun; while sleep 0.1; do echo on; done")
    agent.next(b"1 0 begun")
    agent.send({"do": "hold"})
    agent.send({"do": "clock", "asked_s": 0.0})
    agent.next(EVENT + b'{"clock"')  # so the order was read
    agent.send()  # a sign of life by another thread, which was late
    time.sleep(4 * SILENCE_S)
    assert agent.process.poll() is None
    agent.send({"do": "signal", "number": 9})
    assert agent.next(EVENT + b'{"ended"') == b': 0, "code": -9}'


def test_a_launcher_that_goes_on_may_not_be_silent(agent: Spoken) -> None:
    agent.start("sh", "-c", DEAF)
    agent.next(b"1 0 ")
    agent.send({"do": "hold"})
    agent.send({"do": "go on"})
    assert agent.process.wait() == 1


def test_a_program_may_have_as_many_arguments_as_the_system_takes(agent: Spoken) -> None:
    words = ["\N{CYRILLIC SMALL LETTER YA}" * 1000] * 400  # 2.4 MB of JSON
    agent.start("sh", "-c", "echo $#", "sh", *words)
    assert agent.next(b"1 0 ") == b"400"


def test_a_program_of_one_rank_ends_with_its_agent(agent: Spoken) -> None:
    greeting = json.loads(agent.next(GREETING))
    assert greeting["pid"] == agent.process.pid
    agent.start("sh", "-c", "echo $RINGTREE_RANK $RINGTREE_SECRET; echo wrong >&2; cat; exit 3")
    assert agent.next(b"1 0 ") == b"0 s"
    assert agent.process.wait() == 0


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"folder": "/nowhere"}, "no folder /nowhere there"),
        ({"command": ["no-such-program"]}, "no such program: no-such-program; expected a Python file, "),
        ({"command": ["no_such_module"], "module": True}, "no module 'no_such_module' to run"),
    ],
)
def test_what_cannot_run_is_refused(agent: Spoken, fields: dict[str, object], expected: str) -> None:
    prepare = {"do": "prepare", "folder": "/", "command": ["true"], "module": False, "env": {}, "doorway": False}
    agent.send(prepare | fields)
    assert json.loads(agent.next(EVENT))["failed"].startswith(expected)


def test_ranks_read_nothing_of_the_launchers_line(agent: Spoken) -> None:
    agent.start("sh", "-c", "ls -l /proc/self/fd/0")
    assert agent.next(b"1 0 ").endswith(b"/dev/null")
