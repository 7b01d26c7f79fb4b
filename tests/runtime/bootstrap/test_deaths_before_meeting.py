"""A rank that ends before all have met, wherever in init() or before it, is named at once to those who wait."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import ringtree
from ringtree import PeerDied, RankFailed, spawn
from ringtree.runtime.bootstrap.bootstrap import BootstrapGroup
from ringtree.runtime.bootstrap.local.abstract_socket import AbstractSocket
from ringtree.runtime.bootstrap.local.siblings import REPORT_S, Siblings
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines import shm
from tests.waiting import Event, Naps, until

pytest.importorskip("ringtree._native")

PROGRAM = """
import os, signal, sys, time
from pathlib import Path
rank, victim, moment = int(os.environ["RINGTREE_RANK"]), int(sys.argv[1]), sys.argv[2]
def end_when_others_wait():
    limit_s = time.monotonic() + 60
    while len([*Path(sys.argv[0]).parent.glob("* comes")]) < 2 and time.monotonic() < limit_s:
        time.sleep(0.01)
    for _ in range(100):
        time.sleep(0.01)  # longer on a busy machine; they have looked who is there by then
    os.kill(os.getpid(), signal.SIGKILL)
if rank == victim and moment == "before init":
    end_when_others_wait()
import ringtree
from ringtree.runtime.bootstrap.local.abstract_socket import AbstractSocket
from ringtree.runtime.bootstrap.local.siblings import REPORT_S, Siblings
if rank == victim:
    AbstractSocket.share = lambda *arguments, **more: end_when_others_wait()
else:
    if rank == (victim + 1) % 3 and moment == "in init, one comes last":
        time.sleep(0.3)
    Path(sys.argv[0]).with_name(f"{rank} comes").touch()
begun = time.monotonic()
try:
    ringtree.init()
except Exception as error:
    print(f"{time.monotonic() - begun:.2f} {type(error).__name__} {error}")
"""


@pytest.mark.parametrize("victim", [0, 2])
@pytest.mark.parametrize("moment", ["before init", "in init", "in init, one comes last"])
def test_ranks_that_any_launcher_started(victim: int, moment: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    job = f"test-{os.getpid()}-{victim}-{moment}"
    ranks = [
        subprocess.Popen(
            [sys.executable, str(file), str(victim), moment],
            env={**os.environ, "RINGTREE_RANK": str(r), "RINGTREE_WORLD_SIZE": "3", "RINGTREE_JOB": job,
                 "RINGTREE_TIMEOUT": "60"},
            stdout=subprocess.PIPE, text=True,
        )
        for r in range(3)
    ]  # fmt: skip
    for rank, process in enumerate(ranks):
        text = process.communicate()[0]
        if rank != victim:
            seconds, kind, message = text.split(" ", 2)
            assert kind == "PeerDied"
            assert f"rank {victim} " in message.partition("while")[0], message
            assert float(seconds) < 10  # of its own start, too, on a busy machine, where the limit is 60


EARLIER = """
import os, sys, time
from pathlib import Path
import ringtree
from ringtree.runtime.bootstrap.local.siblings import Siblings
folder, check = Path(sys.argv[0]).parent, Siblings.check
def noted(siblings, absent=()):
    check(siblings, absent)
    if siblings._seen:
        (folder / "looked").touch()
Siblings.check = noted
while os.environ["RINGTREE_RANK"] == "1" and not (folder / "over").exists():
    time.sleep(0.01)
print(ringtree.init().size)
"""


def test_an_earlier_process_of_a_rank_does_not_stand_for_it(tmp_path: Path) -> None:
    """Its end is not the end of the rank that has come meanwhile."""
    (tmp_path / "program.py").write_text(EARLIER)
    job = {"RINGTREE_WORLD_SIZE": "2", "RINGTREE_JOB": str(tmp_path), "RINGTREE_TIMEOUT": "60"}

    def start(rank: int, *words: str) -> subprocess.Popen[str]:
        environment = os.environ | job | {"RINGTREE_RANK": str(rank)}
        return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)

    program = sys.executable, str(tmp_path / "program.py")
    earlier, first = start(1, "sleep", "600"), start(0, *program)
    until((tmp_path / "looked").exists)
    second = start(1, *program)
    earlier.kill()
    earlier.communicate()
    time.sleep(0.5)  # the first looks every 0.1 s
    (tmp_path / "over").touch()
    assert [process.communicate()[0] for process in (first, second)] == ["2\n", "2\n"]


def patched(victim: int, dies: Event, where: str) -> Callable[[pytest.MonkeyPatch], None]:
    def die() -> None:
        time.sleep(0.3)  # the others have looked who is there by then
        dies.set()
        os.kill(os.getpid(), signal.SIGKILL)

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        share = AbstractSocket.share

        def share_or_die(self: AbstractSocket, group: BootstrapGroup, *rest: object) -> object:
            if group.rank == victim and where == "before it meets":
                die()
            result = share(self, group, *rest)  # type: ignore[arg-type]
            if group.rank == victim:
                die()
            return result

        monkeypatch.setattr(AbstractSocket, "share", share_or_die)

    return patch


@pytest.mark.parametrize("victim", [0, 2])
@pytest.mark.parametrize("where", ["before it meets", "before it attaches"])
def test_ranks_that_spawn_started(victim: int, where: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those who have met wait in their first call; the others in the making of the group."""
    dies = Event()
    patched(victim, dies, where)(monkeypatch)
    made = shm.join

    def join_or_note(parameters: object) -> object:
        with Naps(dies.is_set) as naps:
            try:
                joined = made(parameters)  # type: ignore[arg-type]
                joined.endpoint.receive(victim, 0, 0, 60.0)
            except ringtree.PeerDied as error:
                (tmp_path / str(parameters.rank)).write_text(f"{naps.count} {error}")  # type: ignore[attr-defined]
                raise
        return joined

    monkeypatch.setattr(shm, "join", join_or_note)

    def rank(comm: Communicator) -> None:
        raise AssertionError("nobody comes so far")

    with pytest.raises(RankFailed, match=f"rank {victim} of 3 failed: its process was killed by SIGKILL"):
        spawn(rank, 3, timeout_s=60)
    assert {p.name for p in tmp_path.iterdir()} == {"0", "1", "2"} - {str(victim)}
    for file in tmp_path.iterdir():
        naps, message = file.read_text().split(" ", 1)
        assert message.startswith(f"rank {victim} "), message
        assert int(naps) < Naps.A_SECOND


@pytest.mark.parametrize(
    ("report", "expected"),
    [(None, r"died \(process \d+ ended\)"), ({}, r"ended \(its process exited with code 0\)")],
    ids=["nobody reports", "the launcher reports later"],
)
def test_a_launcher_gets_time_to_report_how_a_rank_has_ended(report: dict[int, str] | None, expected: str) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        siblings = Siblings(lambda: {1: process.pid}, 0, 2, lambda: report)
        siblings.check()
        process.kill()
    with pytest.raises(PeerDied, match=rf"rank 1 {expected} while rank 0 waited"):
        siblings.check()
        assert report is not None
        report[1] = "exited with code 0"
        siblings.check()


def test_a_rank_is_dead_whose_launcher_reports_nothing() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        siblings = Siblings(lambda: {1: process.pid}, 0, 2, dict)
        siblings.check()
        process.kill()
    begun_s = time.monotonic()
    with pytest.raises(PeerDied, match=r"rank 1 died \(process \d+ ended\)"):
        until(siblings.check)
    assert time.monotonic() > begun_s + REPORT_S
