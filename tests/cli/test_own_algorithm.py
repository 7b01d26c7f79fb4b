"""An algorithm of a user's own, by FILE.py:FUNCTION in every command that takes an algorithm."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ringtree import Communicator, RankFailed, spawn
from ringtree.algorithms import registry
from tests.algorithms.own_files import ZIGZAG, install, write
from tests.cli.conftest import Ringtree

PROGRAM = """import os
import numpy as np
import ringtree
os.chdir("/")
comm = ringtree.init()
x = np.full(3, comm.rank + 1.0)
print(comm.all_reduce(x).tolist(), comm.chosen("all_reduce", 3, x.dtype).part.program.name, flush=True)
print(comm.broadcast(x).tolist(), comm.chosen("broadcast", 3, x.dtype).part.program.name, flush=True)
print(comm.scan(x).tolist(), comm.chosen("scan", 3, x.dtype).part.program.name, flush=True)
"""


@pytest.fixture(autouse=True)
def mine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """mine.py in the working folder, and nothing registered."""
    monkeypatch.setattr(registry, "_own", {})
    monkeypatch.chdir(tmp_path)
    write(tmp_path)


def test_an_own_algorithm_is_proved(ringtree: Ringtree) -> None:
    got = ringtree("prove", "mine.py:zigzag", "-n", "1-9")
    assert got.code == 0 and "zigzag              broadcast       1-9" in got.out and "proved 24 schedules" in got.out
    assert ringtree("prove", "--algorithm", "mine.py:zigzag", "-n", "4").code == 0
    some = ringtree("prove", "mine.py:powers", "-n", "1-4")
    assert some.code == 1 and "n=3: mine.py: powers all_reduce over 3 ranks: only powers of two (line 32)" in some.out


def test_an_own_algorithm_is_shown(ringtree: Ringtree, tmp_path: Path) -> None:
    for words in (("mine.py:zigzag",), ("--algorithm", "mine.py:zigzag")):
        assert "0 ─ 4 ─ 1 ─ 3 ─ 2" in ringtree("show", *words, "-n", "5", "--rounds").out
    page = tmp_path / "page.html"
    assert ringtree("show", "mine.py:zigzag", "--html", str(page)).code == 0 and "zigzag" in page.read_text()
    wrong = ringtree("show", "mine.py:forgetful", "-n", "4", "--rounds")
    assert wrong.code == 0 and "NOT DONE: rank 3 violates the postcondition of all_reduce in chunk 0" in wrong.out


def test_what_a_file_prints_is_no_part_of_the_result(ringtree: Ringtree, tmp_path: Path) -> None:
    text = ZIGZAG.replace('    """Star: all', '    print("called")\n    """Star: all')
    write(tmp_path, text + '\n\nprint("loaded")\n', "loud.py")
    got = ringtree("show", "loud.py:star", "-n", "4", "--text")
    assert got.err.split()[0] == "loaded" and "called" in got.err
    Path("star.txt").write_text(got.out)
    assert ringtree("prove", "star.txt").code == 0


def test_an_own_algorithm_is_simulated(ringtree: Ringtree) -> None:
    got = ringtree("simulate", "--algorithm", "mine.py:zigzag", "-n", "5", "--bytes", "1M")
    assert got.code == 0 and "(rank 0 → 4 → 1 → 3 → 2)" in got.out and got.err == ""
    beside = ("--with", "mine.py:zigzag:broadcast:1M:5us")
    assert "concurrent mine.py:zigzag:broadcast:1M:5us" in ringtree("simulate", "ring", "--bytes", "1M", *beside).out
    of_wrong = (("mine.py:forgetful",), ("ring", "--with", "mine.py:forgetful:all_reduce:1M"))
    for words in of_wrong:
        wrong = ringtree("simulate", *words, "-n", "4", "--bytes", "1M")
        assert wrong.code == 0
        assert "simulated although not proved: forgetful all_reduce over 4 ranks: rank 3" in wrong.err


def test_an_own_algorithm_is_priced(ringtree: Ringtree) -> None:
    words = (
        "sweep",
        "all_reduce",
        "--topology",
        "switch:latency=1us,bandwidth=1GB/s",
        "--ranks",
        "3",
        "--bytes",
        "1000",
    )
    got = ringtree(*words, "--algorithm", "ring,mine.py:star")
    head = next(line for line in got.out.splitlines() if line.startswith("#") and "size" in line)
    assert head.split()[2:4] == ["ring", "star"] and "6.00" in got.out.split()
    many = ringtree(*words, "--ranks", "20000", "--bytes", "1M", "--algorithm", "mine.py:star")
    assert many.code == 0 and "star" in many.out  # as many transfers as ranks


def test_an_own_algorithm_is_measured(ringtree: Ringtree) -> None:
    words = ("bench", "all_reduce", "-n", "1,3", "-b", "8", "-e", "4K", "-f", "512", "--iters", "2")
    got = ringtree(*words, "--algorithm", "mine.py:star")
    assert got.code == 0, got.err
    assert got.out.count("star (") == 4 and got.out.count("# Out of bounds values : 0 OK") == 2


def launched(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    Path("program.py").write_text(PROGRAM)
    return subprocess.run(
        [sys.executable, "-m", "ringtree.cli", "run", "-n", "3", *words, "program.py"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_program_runs_with_it_unchanged() -> None:
    """Wherever its ranks have gone."""
    done = launched("--algorithm", "mine.py:star,mine.py:zigzag,inorder_tree")
    assert done.returncode == 0, done.stderr
    for rank in range(3):
        assert f"[{rank}] [6.0, 6.0, 6.0] star" in done.stdout and f"[{rank}] [1.0, 1.0, 1.0] zigzag" in done.stdout
    assert done.stdout.count("inorder_tree") == 3


def test_under_another_launcher_a_variable_names_it(tmp_path: Path) -> None:
    done = launched(RINGTREE_ALGORITHM=f"{tmp_path}/mine.py:star")
    assert done.returncode == 0 and done.stdout.count("[6.0, 6.0, 6.0] star") == 3


WRONG = "forgetful all_reduce over 3 ranks: rank 2 chunk 0: expected the sum of ranks 0..2 of chunk 0; there was"
COMMANDS = [
    "bench all_reduce -n 3 --algorithm {}",
    "sweep all_reduce --topology switch --ranks 3 --bytes 1M --algorithm {}",
    "search all_reduce --topology switch --ranks 3 --bytes 1M --algorithm ring,{} --json found.json",
    "run -n 3 --algorithm {} program.py",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_one_is_refused_before_anything_runs(ringtree: Ringtree, command: str) -> None:
    Path("program.py").write_text("raise SystemExit('it ran')")
    got = ringtree(*command.format("mine.py:forgetful").split())
    assert got.code == 1 and WRONG in got.err and len(got.err.splitlines()) == 1 and got.out == ""
    assert not Path("found.json").exists()


@pytest.mark.parametrize("command", [*COMMANDS, "prove {}", "show {}", "simulate --bytes 1M {}", "show --algorithm {}"])
@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("gone.py:star", "gone.py:star: no file gone.py; expected FILE.py:FUNCTION"),
        ("mine.py:stra", "mine.py:stra: mine.py has no function 'stra'; expected one of zigzag, star,"),
        ("mine.py:deaf", "mine.py: deaf over 4 ranks returns a list; expected a ringtree.ir.schedule.Schedule"),
        ("rign", "'rign'"),
    ],
)
def test_a_wrong_algorithm_is_refused_in_a_line(
    ringtree: Ringtree, command: str, reference: str, expected: str
) -> None:
    got = ringtree(*command.format(reference).split())
    assert got.code == 1 and expected in got.err and len(got.err.splitlines()) == 1 and got.out == ""


def test_an_algorithm_is_named_once(ringtree: Ringtree) -> None:
    got = ringtree("prove", "ring", "--algorithm", "mine.py:star")
    assert got.code == 2 and "not allowed with argument" in got.err and len(got.err.splitlines()) == 1


def call(comm: Communicator, algorithm: str) -> tuple[list[float], list[float]]:
    total = comm.all_reduce(np.full(3, comm.rank + 0.5), algorithm=algorithm, deterministic="rank_order")
    product = comm.all_reduce(np.array([[1, comm.rank], [1, 0]]), lambda a, b: a @ b, algorithm=algorithm)
    return total.tolist(), product.ravel().tolist()


def test_a_call_takes_it_by_name(tmp_path: Path) -> None:
    """In rank order, as its schedules are."""
    product = np.linalg.multi_dot([np.array([[1, rank], [1, 0]]) for rank in range(4)])
    for threads in (False, True):
        assert (
            spawn(call, 4, f"{tmp_path}/mine.py:star", threads=threads) == [([8.0] * 3, product.ravel().tolist())] * 4
        )


def call_of(comm: Communicator, algorithm: str, op: str) -> None:
    before = comm.counters()
    try:
        comm.all_reduce(np.ones(3), op if op == "sum" else np.add, algorithm=algorithm)
    finally:
        assert comm.counters() == before  # nothing was sent


@pytest.mark.parametrize("op", ["sum", "function"])
def test_a_call_refuses_a_wrong_one_on_every_rank(tmp_path: Path, op: str) -> None:
    with pytest.raises(RankFailed, match="forgetful all_reduce over 3 ranks: rank 2 chunk 0: expected the sum"):
        spawn(call_of, 3, f"{tmp_path}/mine.py:forgetful", op)


def test_algorithms_of_packages_are_listed(ringtree: Ringtree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    install(tmp_path, "tree_pack", ZIGZAG, packed_star="tree_pack:star", ring="tree_pack:star")
    listed = ringtree("algorithms").out
    assert "packed_star         of package tree_pack\n" in listed
    assert "of package tree_pack; ringtree has one of that name, which is taken" in listed
    assert ringtree("prove", "packed_star", "-n", "4").code == 0
    assert "packed_star" not in ringtree("algorithms", "--markdown").out
