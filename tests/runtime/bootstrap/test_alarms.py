"""A program's own alarm in init(): what its handler raises comes out unchanged, and the other ranks get that reason."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from ringtree.runtime.bootstrap.network.boards.store_board import of_handler

pytest.importorskip("ringtree._native")

PROGRAM = """
import builtins, os, signal, sys, time
from pathlib import Path
import ringtree
from ringtree.runtime.bootstrap.bootstrap import BootstrapGroup
rank, (_, who, kind, wait, store) = os.environ["RINGTREE_RANK"], sys.argv
folder, ticks, check = Path(sys.argv[0]).parent, [], BootstrapGroup.check
class Alarm(Exception):
    pass
def handle(number, frame):
    ticks.append(len([*folder.glob("* waits")]) >= int(wait))
    if ticks.count(True) == 3:
        raise getattr(builtins, kind, Alarm)("my own alarm")
def noted(group, absent):  # called amid a wait for others
    if not noted.done:  # once: touch() passes over an OSError, a handler's too
        noted.done = True
        (folder / f"{rank} waits").touch()
    check(group, absent)
noted.done = False
BootstrapGroup.check = noted
class Store:  # get waits for the key
    def set(self, key, value):
        pass
    def get(self, key):
        time.sleep(0.2)
        raise KeyError(key)
if rank == who:
    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.25, 0.25)
begun = time.monotonic()
try:
    ringtree.init(store=Store() if store else None)
except BaseException as error:
    print(f"{time.monotonic() - begun:.2f} {type(error).__name__} {error}")
"""
KINDS = ("TimeoutError", "ConnectionError", "OSError", "KeyError", "Alarm")
REASONS = {
    "one host": "PeerDied rank {} was interrupted while the group of 3 ranks was being set up ({}: {})\n",
    "an address": "RuntimeError rank {} failed while the job of 3 ranks was being set up: {}: {}\n",
}


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def started(
    folder: Path, ranks: tuple[int, ...], who: int, kind: str, store: str = "", **more: str
) -> dict[int, tuple[float, str]]:
    """The seconds that each rank was in init(), and its error there."""
    (folder / "program.py").write_text(PROGRAM)
    job = {"RINGTREE_WORLD_SIZE": "3", "RINGTREE_JOB": str(folder), "RINGTREE_TIMEOUT": "30", **more}
    wait = str(len(ranks) if len(ranks) > 1 else 0)
    words = [sys.executable, str(folder / "program.py"), str(who), kind, wait, store]
    processes = {
        rank: subprocess.Popen(words, env=os.environ | job | {"RINGTREE_RANK": str(rank)}, stdout=-1, text=True)
        for rank in ranks
    }
    ends = {rank: process.communicate()[0].split(" ", 1) for rank, process in processes.items()}
    return {rank: (float(seconds), text) for rank, (seconds, text) in ends.items()}


@pytest.mark.parametrize(
    ("way", "who", "kind"),
    [
        pytest.param(way, who, kind, marks=[] if kind == ("TimeoutError", "ConnectionError")[who] else pytest.mark.slow)
        for way in REASONS
        for who in (0, 1)
        for kind in ("TimeoutError", "ConnectionError", "KeyError")
    ],
)
def test_both_ends_get_the_alarm(way: str, who: int, kind: str, tmp_path: Path) -> None:
    """The third rank has not come when it goes off."""
    more = {"RINGTREE_ADDRESS": f"127.0.0.1:{free_port()}"} if way == "an address" else {}
    ends = started(tmp_path, (0, 1), who, kind, **more)
    text = "'my own alarm'" if kind == "KeyError" else "my own alarm"
    assert ends[who][1] == f"{kind} {text}\n"
    assert ends[1 - who][1] == REASONS[way].format(who, kind, text)
    assert max(seconds for seconds, _ in ends.values()) < 20  # of 30


@pytest.mark.parametrize("kind", KINDS)
def test_an_alarm_amid_a_stores_get(kind: str, tmp_path: Path) -> None:
    """Whose own errors are of some of these classes, too."""
    text = "'my own alarm'" if kind == "KeyError" else "my own alarm"
    assert started(tmp_path, (1,), 1, kind, "store")[1][1] == f"{kind} {text}\n"


@pytest.mark.parametrize("way", REASONS)
def test_an_alarm_before_rank_0_listens(way: str, tmp_path: Path) -> None:
    more = {"RINGTREE_ADDRESS": f"127.0.0.1:{free_port()}"} if way == "an address" else {}
    assert started(tmp_path, (1,), 1, "TimeoutError", **more)[1][1] == "TimeoutError my own alarm\n"


class Handler:
    def __call__(self, number: int, frame: object) -> None:
        raise TimeoutError("my own alarm")

    def method(self, *arguments: object) -> None:
        self(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("handler", [Handler(), Handler().method, partial(Handler())])
def test_a_handlers_exception_is_known_by_its_frame(handler: Handler) -> None:
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        time.sleep(5)
    except TimeoutError as error:
        assert of_handler(error)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_others_errors_are_no_handlers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.01)
        with pytest.raises(TimeoutError) as late:
            listener.accept()
    assert not of_handler(late.value)
