"""A few seconds of `make soak`; and that it finds the faults it looks for in a communicator that has them."""

from __future__ import annotations

import gc
import json
import mmap
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ringtree import spawn
from ringtree.ir.collective import COLLECTIVES
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.conftest import available
from tests.runtime.soak.__main__ import main
from tests.runtime.soak.figures import FILLING_CALLS, MIB, OF_A_CALL, Allowance, Figures, allowances, figures, grown
from tests.runtime.soak.player import Wrong
from tests.runtime.soak.rank import LOOKS, Report, Soak, SoakSettings
from tests.runtime.soak.script import MIXES, PLACES, SPLITS, STYLES, Call, Exchange, Open, Window, mix_of, steps
from tests.runtime.soak.values import Tables
from tests.runtime.soak.worlds import Failed, Kind, run
from tests.waiting import until

ROOT = Path(__file__).parents[3]
pytestmark = [
    pytest.mark.skipif(not available("shm"), reason="the native engine is not built"),
    pytest.mark.timeout(400),  # a rank that hangs ends by its own timeout, 60 s
]


@pytest.mark.parametrize(
    ("ranks", "seconds"), [(3, 1.0), *(pytest.param(n, 10.0, marks=pytest.mark.slow) for n in (2, 4, 6))]
)
def test_a_soak_finds_nothing(ranks: int, seconds: float) -> None:
    seed = int.from_bytes(os.urandom(4), "little")
    reports = run(ranks, SoakSettings(seconds, seconds / 4, seed, progress=False), busy=2)
    assert len(reports) == ranks
    assert len({report.calls for report in reports}) == 1
    assert reports[0].calls >= 25


@pytest.mark.parametrize(
    ("ranks", "kind"),
    [
        (2, Kind(threads=2)),
        pytest.param(3, Kind(layout=(2, 1)), marks=pytest.mark.hosts),
        pytest.param(2, Kind(torch=True), marks=pytest.mark.torch),
    ],
    ids=["threads", "hosts", "torch"],
)
def test_a_soak_of_every_kind_finds_nothing(ranks: int, kind: Kind) -> None:
    if why := kind.missing():
        pytest.skip(why)
    seed = int.from_bytes(os.urandom(4), "little")
    reports = run(ranks, SoakSettings(0.5, 0.2, seed, progress=False), 0, kind)
    assert len(reports) == ranks and reports[0].calls >= 25 * kind.threads


def lose_memory(kept: list[bytes], _: Communicator) -> None:
    kept.append(os.urandom(1 << 20) * 20)


def hang(*_: Any) -> None:
    time.sleep(1000)


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


FAULTS: list[tuple[str, Callable[[list[Any], Communicator], Any], str]] = [
    (
        "descriptor",
        lambda kept, _: kept.append(os.open(os.devnull, os.O_RDONLY)),
        r"rank 1 of 2 at .* descriptors; after the warm-up there were \d+; expected at most 0 more",
    ),
    (
        "thread",
        lambda *_: threading.Thread(target=hang, daemon=True).start(),
        r"rank 1 of 2 at .* threads; after the warm-up there were \d+; expected at most 2 more",
    ),
    (
        "mapping",
        lambda kept, _: kept.extend(mmap.mmap(-1, 4096, prot=1 + 2 * (k % 2)) for k in range(40)),
        r"rank 1 of 2 at .* mappings; after the warm-up there were \d+; expected at most 64 more",
    ),
    ("memory", lose_memory, r"rank 1 of 2 at .* resident memory grew from .* to .* MiB; expected at most \d+ MiB more"),
    (
        "objects",
        lambda kept, _: kept.extend(object() for _ in range(5000)),
        r"rank 1 of 2 at .* [\d,]+ objects; after the warm-up there were [\d,]+; expected at most [\d,]+ more",
    ),
    ("killed", die, r"rank 0 of 2 at call .*PeerDied[\s\S]*rank 1 of 2 failed: its process was killed by SIGKILL"),
]
HANGS = r"rank 0 of 2 at call .*TimedOut: .*rank 1[\s\S]*rank 1 of 2 failed: its process exited with code 1"


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        *(pytest.param(*row[1:], id=row[0]) for row in FAULTS),
        pytest.param(hang, HANGS, id="hang", marks=pytest.mark.slow),  # which it finds by waiting for it
    ],
)
def test_a_fault_of_rank_1_fails_the_soak(
    monkeypatch: pytest.MonkeyPatch, fault: Callable[[list[Any], Communicator], Any], expected: str
) -> None:
    whole = Communicator.all_reduce
    kept: list[Any] = []

    def all_reduce(comm: Communicator, *args: Any, **options: Any) -> Any:
        if comm.rank == 1:
            fault(kept, comm)
        return whole(comm, *args, **options)

    monkeypatch.setattr(Communicator, "all_reduce", all_reduce)
    text = failure(timeout_s=2 if fault is hang else 20)
    assert_matches(text, rf"{expected}[\s\S]*again: make soak ARGS=\"--ranks 2 --seed 7 --mix turns --first \d+\"")


class Circle:
    """Garbage that the collector has to find."""

    def __init__(self) -> None:
        self.self = self


def test_what_waits_for_the_collector_is_no_leak() -> None:
    def rank(comm: Communicator) -> None:
        life = Soak(comm, SoakSettings(100.0, 0.0, 7), Tables(1), np.zeros(1, np.int64))
        life.report.calls = FILLING_CALLS
        life._look(False, False)
        gc.disable()
        for _ in range(20_000):
            Circle()
        assert sys.getallocatedblocks() > life.report.end.objects + 12_000
        life._look(True, True)
        assert sys.getallocatedblocks() < life.report.end.objects + 12_000

    spawn(rank, 1)


FULL = Figures(0, 100 * MIB, 5, 2, 0, 50 * MIB, 200, 100 * MIB, 1_000_000, FILLING_CALLS)
"""Of a rank whose caches are full."""


@pytest.mark.parametrize("since", [0, 1], ids=["since the warm-up", "since half way"])
@pytest.mark.parametrize("name", [each.name for each in fields(Allowance)])
@pytest.mark.parametrize(("threads", "torch"), [(1, False), (3, False), (1, True)], ids=["one", "threads", "torch"])
def test_memory_may_grow_by_so_much(since: int, name: str, threads: int, torch: bool) -> None:
    more = getattr(allowances(threads, torch)[since], name)
    warm, half = FULL, FULL
    if since == 0:  # half of it before half way
        half = with_more(FULL, name, more // 2)
    assert grown(warm, half, with_more(FULL, name, more), threads, torch) == ""
    wrong = grown(warm, half, with_more(FULL, name, more + 1), threads, torch)
    assert ("the warm-up", "half way")[since] in wrong
    assert {"resident_nbytes": "resident memory", "heap_nbytes": "the heap", "objects": "objects"}[name] in wrong


def with_more(figures: Figures, name: str, more: int) -> Figures:
    return replace(figures, **{name: getattr(figures, name) + more})


def test_what_fills_and_groups_of_torch_may_have_objects() -> None:
    more = allowances(1, True)[1].objects
    early = replace(FULL, calls=100)
    filled = OF_A_CALL.objects * (FILLING_CALLS - 100)
    assert grown(early, early, with_more(FULL, "objects", more + filled), 1, True) == ""
    assert grown(early, early, with_more(replace(FULL, calls=9000), "objects", more + filled + 1), 1, True)
    made = replace(FULL, groups_of_torch=70)
    assert grown(FULL, FULL, with_more(made, "objects", more + 140), 1, True) == ""
    assert grown(FULL, FULL, with_more(made, "objects", more + 141), 1, True)


FREED_NBYTES = 4 << 10
"""Memory that others of the process may free between two looks, so that the heap grows by less than the leak; 32 bytes
were seen."""


@pytest.mark.skipif(not figures([]).heap_nbytes, reason="the C library does not count its heap")
def test_a_leak_that_begins_late_is_found_in_the_second_half() -> None:
    def rank(comm: Communicator) -> tuple[Report, str]:
        gc.collect()  # else the first look that finds growth collects what other tests have left
        life = Soak(comm, SoakSettings(100.0, 0.0, 7), Tables(1), np.zeros(1, np.int64))
        life.report.calls = FILLING_CALLS
        life._look(False, False)
        kept = [bytearray(MIB // 2)]
        life._look(True, False)
        life._look(True, True)
        under_way = bytearray(7 * MIB)  # of a call that ends: no leak
        life._look(True, True)
        del under_way
        life._look(True, True)
        kept.append(bytearray(6 * MIB + MIB // 4))
        for _ in range(LOOKS - 1):
            life._look(True, True)
        with pytest.raises(Wrong) as wrong:
            life._look(True, True)
        return life.report, str(wrong.value)

    [(report, wrong)] = spawn(rank, 1)
    assert_matches(wrong, r"the heap grew from .* to .* MiB; expected at most 6 MiB more than half way")
    assert report.warm and report.half and report.end
    leaked_early_nbytes = report.half.heap_nbytes - report.warm.heap_nbytes
    assert leaked_early_nbytes >= MIB // 2 - FREED_NBYTES
    assert report.end.heap_nbytes > report.half.heap_nbytes + 6 * MIB


def test_a_wrong_element_fails_the_soak(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Communicator.all_reduce

    def all_reduce(comm: Communicator, *args: Any, **options: Any) -> Any:
        result = whole(comm, *args, **options)
        if comm.rank == 1 and result.size:
            result[-1] += 1
        return result

    monkeypatch.setattr(Communicator, "all_reduce", all_reduce)
    assert_matches(
        failure(), r"rank 1 of 2 at call \d+, Call\(collective='all_reduce', .*: 1 of \d+ elements differ, from"
    )


def test_an_open_slot_fails_the_soak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Communicator, "slots_open", property(lambda comm: 3 * comm.rank))
    assert_matches(failure(), r"rank 1 of 2 at call \d+, .*: 3 staging slots are open after it; expected none")


def failure(timeout_s: float = 20.0) -> str:
    """The error of a soak of 2 ranks that finds something."""
    with pytest.raises(Failed) as failed:
        run(2, SoakSettings(100.0, 0.0, 7, "turns", timeout_s=timeout_s), busy=0)
    return str(failed.value)


def assert_matches(text: str, pattern: str) -> None:
    assert re.search(pattern, text), text


def test_the_record_has_every_ranks_resources(tmp_path: Path) -> None:
    file = tmp_path / "soak.json"
    assert main(["--minutes", "0.01", "--ranks", "2", "--seed", "3", "--load", "1", "--json", str(file)]) == 0
    record = json.loads(file.read_text())
    [world] = record["worlds"]
    assert (record["seed"], world["ranks"]) == (3, 2)
    for rank, held in enumerate(world["by_rank"]):
        assert held["rank"] == rank
        assert held["end"].keys() == {field.name for field in fields(Figures)}
        assert held["end"]["slots_open"] == 0
        assert held["warm"]["calls"] <= held["half"]["calls"] <= held["end"]["calls"] == held["calls"]
        assert world["calls"] == held["calls"] == sum(held["calls_by_mix"].values()) > 0


def test_a_soak_that_is_killed_leaves_no_process_behind() -> None:
    command = [sys.executable, "-m", "tests.runtime.soak", "--minutes", "5", "--ranks", "2", "--load", "2"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True) as soak:
        until(lambda: len(session(soak.pid)) >= 5)  # itself, two ranks, two that keep the cores busy
        soak.kill()
        until(lambda: not session(soak.pid))


def session(number: int) -> list[int]:
    """The processes of a session that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == number and fields[0] not in "ZX":
            found.append(int(stat.parent.name))
    return found


def test_a_script_has_every_kind_of_step() -> None:
    drawn = [step for chapter in range(200) for step in steps(1, chapter, mix_of(1, chapter))]
    calls = [step for step in drawn if isinstance(step, Call)]
    assert {call.collective for call in calls} == set(COLLECTIVES)
    assert {call.place for call in calls} == set(PLACES)
    assert {call.later for call in calls} == {bool(call.cuts) for call in calls} == {False, True}
    assert {step.style for step in drawn if isinstance(step, Exchange)} == set(STYLES)
    assert {step.how for step in drawn if isinstance(step, Open)} == set(SPLITS)
    assert {step.how for step in drawn if isinstance(step, Window)} == {"put", "get"}
    assert max(call.count for call in calls) > 390_000 and min(call.count for call in calls) == 0


def test_every_mix_comes_once_at_first() -> None:
    assert [mix_of(5, chapter) for chapter in range(len(MIXES))] == list(MIXES)
