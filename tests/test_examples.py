"""Each example prints the text that lies beside it, and the demo runs through."""

from __future__ import annotations

import os
import re
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ringtree.cli import parser_for
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.outlived import CONTEXT, end

EXAMPLES = Path(__file__).parent.parent / "examples"
PRINTED = sorted(EXAMPLES.glob("*.out"))


def output(*words: str) -> str:
    """The output of a program; its exit code must be 0."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=EXAMPLES.parent,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.docs
@pytest.mark.parametrize("expected", PRINTED, ids=[p.stem for p in PRINTED])
def test_an_example_prints_the_text_beside_it(expected: Path, request: pytest.FixtureRequest) -> None:
    printed = output(str(expected.with_suffix(".py")))
    if request.config.getoption("--update-golden"):
        expected.write_text(printed, encoding="utf-8")
    assert printed == expected.read_text(encoding="utf-8")


OTHERS = {"demo", "digits", "on_ray", "ray_actors"}


def test_every_example_is_tested() -> None:
    assert {p.stem for p in EXAMPLES.glob("*.py")} == {p.stem for p in PRINTED} | OTHERS | {*LAYOUTS}


LAYOUTS = {"ddp": (1, 4), "fsdp2": (1, 4), "dp_tp": (2, 4)}
LONGER = [pytest.param(name, numbers, marks=pytest.mark.slow) for name, numbers in LAYOUTS.items()]


@pytest.mark.torch
@pytest.mark.parametrize(("name", "numbers"), [("ddp", (1, 2)), *LONGER])
def test_a_layout_trains_alike_on_any_number_of_ranks(name: str, numbers: tuple[int, ...]) -> None:
    losses = set[tuple[str, ...]]()
    for ranks in numbers:
        torchrun = ("torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks))
        launcher = torchrun if ranks > 1 else ("ringtree.cli", "run", "-n", "1")  # which loads no torch itself
        printed = output("-m", *launcher, f"examples/{name}.py")
        losses.add(tuple(re.findall(r"step +\d+  loss (\d\.\d{3})", printed)))
    (alike,) = losses
    assert len(alike) == 5 and float(alike[-1]) < 0.02 < float(alike[0])


def test_the_elastic_example_outlives_a_death_as_its_ranks_catch_up() -> None:
    example = runpy.run_path(str(EXAMPLES / "elastic.py"))
    train, place, losses = example["train"], f"catch up {os.getpid()}", CONTEXT.Queue()
    names, catch_up = train.__globals__, example["caught_up"]

    def killed(comm: Communicator, weights: Any, step: int) -> Any:
        if comm.rank == 1 and "rank 3 died" in comm.first_cause:
            end()
        return catch_up(comm, weights, step)

    names.update(caught_up=killed, KILLED_AT={3: 20}, JOINS_AT=-1)
    workers = [CONTEXT.Process(target=train, args=(n, place, losses)) for n in range(example["RANKS"])]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, -signal.SIGKILL, 0, -signal.SIGKILL, 0]
    loss, ranks = losses.get()
    assert ranks == 3 and loss == pytest.approx(example["alone"](), abs=1e-12)


@pytest.mark.slow
def test_the_digits_train_on_another_number_of_ranks() -> None:
    printed = output("-m", "ringtree.cli", "run", "-n", "3", "examples/digits.py", "--epochs", "1")
    assert printed.count("] ok  ") == 3 and "FAILED" not in printed


def test_the_demos_commands_are_understood() -> None:
    demo = runpy.run_path(str(EXAMPLES / "demo.py"))
    for short in (False, True):
        for _, _, commands in demo["chapters"](short):
            for words in commands:
                assert parser_for(words[0]).parse_args(words).command == words[0]


@pytest.mark.slow
def test_the_demo_runs_through() -> None:
    printed = output("examples/demo.py", "--short")
    assert "$ ringtree run -n 4 examples/digits.py --epochs 3" in printed
    assert "proved 8 schedules with" in printed
    assert re.search(r"epoch  3/3 ━+ loss 0\.\d+  accuracy +9\d\.\d\d%", printed)
    assert "ok  one process over the whole data reaches the same weights (float tolerance)" in printed
    assert "FAILED" not in printed and "# Out of bounds values : 0 OK" in printed
    assert "All of it verified" in printed and printed.endswith("The report lies in build/report.html.\n")
    for page in ("report", "double_tree", "calls"):
        assert f"build/{page}.html: any browser opens it" in printed
        assert (EXAMPLES.parent / "build" / f"{page}.html").stat().st_size > 100_000
