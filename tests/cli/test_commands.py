"""The output of each command."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ringtree as package
from ringtree.algorithms import REGISTRY, pairs
from ringtree.cli import COMMANDS
from ringtree.cli.info import numa
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.text import parse_schedule
from ringtree.machines.sysfs import Sysfs
from tests.cli.conftest import Ringtree
from tests.machines.sysfs_trees import SysTree

RING = """\
schedule ring all_reduce: 4 ranks, 4 chunks
3 times, chunk -1: r data[r-1] +> r+1
3 times, chunk -1: r data[r] -> r+1
"""


def test_show_prints_a_schedule_that_reads_back(ringtree: Ringtree) -> None:
    """The exact text, and the rounds as comments."""
    got = ringtree("show", "ring", "-n", "4")
    assert got.code == 0 and got.out.startswith(f"{RING}#\n# ring all_reduce: 4 ranks")
    assert parse_schedule(got.out) == REGISTRY["ring"].build("all_reduce", 4)
    assert ringtree("show", "ring", "-n", "4", "--text").out == RING
    rounds = ringtree("show", "ring", "-n", "4", "--rounds").out
    commented = "".join(f"# {line}".rstrip() + "\n" for line in rounds.splitlines())
    assert got.out == f"{RING}#\n{commented}"


def test_show_prints_one_ranks_program(ringtree: Ringtree) -> None:
    got = ringtree("show", "chain", "-n", "2", "--collective", "broadcast", "--root", "1", "--rank", "0")
    assert got.out.splitlines()[0] == "program chain broadcast rank 0 of 2 chunks 1 root 1"
    assert "wait 1 message0" in got.out


def test_show_cuts_a_schedule_for_a_size(ringtree: Ringtree) -> None:
    shown = ringtree("show", "chain", "-n", "8", "--bytes", "64M").out
    assert shown.splitlines()[:2] == [
        "# 67108864 bytes staged through 8 slots of 131072: pieces=256; chunks of 262144 bytes, sent 131072 at a time",
        "schedule chain broadcast: 8 ranks, 256 chunks, root 0",
    ]
    assert parse_schedule(shown) == REGISTRY["chain"].build("broadcast", 8, pieces=256)
    shown = ringtree("show", "chain", "-n", "8", "--bytes", "64").out
    assert shown.startswith("# 64 bytes staged through 8 slots of 131072: not cut; chunks of 64 bytes, sent whole\n")


def test_an_algorithms_own_options_are_passed_on(ringtree: Ringtree) -> None:
    matrix = "[[0,2,1],[2,0,2],[1,2,0]]"
    shown = ringtree("show", "locality_tree", "-n", "3", "--option", f"distances={matrix}").out
    expected = REGISTRY["locality_tree"].build("all_reduce", 3, distances=json.loads(matrix))
    assert parse_schedule(shown) == expected != REGISTRY["locality_tree"].build("all_reduce", 3)
    words = ("hierarchical", "--collective", "all_gather", "--option", "group=4", "--option", "inner=bruck")
    assert parse_schedule(ringtree("show", *words).out) == REGISTRY["hierarchical"].build(
        "all_gather", 8, group=4, inner="bruck"
    )
    proved = ringtree("prove", "chain", "--collective", "reduce", "-n", "4", "--option", "pieces=5")
    assert proved.out.splitlines()[1].split()[4] == "45" and proved.code == 0


NAMED = [
    "show ring --collective {} -n 4 --text",
    "prove ring --collective {} -n 4",
    "simulate ring --collective {} -n 4 --bytes 1M",
    "simulate ring -n 4 --bytes 1M --with ring:{}:1M",
    "algorithms --collective {}",
    "export ring /dev/null --format text -n 4 --collective {}",
    "bench {} -n 2 -b 8 -e 8 --iters 1",
    "plan {} -n 2 --bytes 8",
    "plan {} --topology dgx-h100 --bytes 8",
    "sweep {} --topology dgx-h100 --bytes 8",
]


@pytest.mark.parametrize("words", NAMED)
def test_nccl_tests_names_are_taken_everywhere(ringtree: Ringtree, words: str) -> None:
    """What differs are measured times, and the command's own words."""
    ours, theirs = (ringtree(*words.format(name).split()) for name in ("all_gather", "allgather"))
    assert (theirs.code, theirs.err) == (ours.code, ours.err) == (0, "")
    lines = [re.sub(r"[0-9. µmnu]+s\b|allgather", "", got.out.splitlines()[0]) for got in (ours, theirs)]
    assert lines[0].replace("ring:all_gather", "ring:") == lines[1]


def test_prove_one_prints_what_it_proved(ringtree: Ringtree) -> None:
    got = ringtree("prove", "chain", "--collective", "broadcast", "-n", "1-4")
    assert got.code == 0
    assert got.out.splitlines()[1].split() == ["chain", "broadcast", "1-4", "9", "17", "26", "1"]
    assert "proved 9 schedules with 17 transfers, and the 26 programs" in got.out


@pytest.mark.parametrize(("long", "expected"), [(24, "ring all_reduce n=4: 24 transfers, which may"), (25, "")])
def test_a_long_proof_says_so_where_there_is_no_terminal(
    ringtree: Ringtree, monkeypatch: pytest.MonkeyPatch, long: int, expected: str
) -> None:
    monkeypatch.setattr("ringtree.cli.prove.LONG_TRANSFERS", long)
    got = ringtree("prove", "ring", "--collective", "all_reduce", "-n", "4")
    assert got.code == 0 and got.out.count("\n") == 3
    assert got.err.startswith(f"ringtree prove: {expected}" if expected else "") and got.err.count("\n") == bool(
        expected
    )


def test_prove_takes_a_number_of_ranks_once(ringtree: Ringtree) -> None:
    assert "proved 2 schedules" in ringtree("prove", "ring", "--collective", "all_reduce", "-n", "2,3,2-3").out


@pytest.mark.parametrize("command", ["prove", "show"])
def test_an_empty_name_is_refused(ringtree: Ringtree, command: str) -> None:
    got = ringtree(command, "")
    assert got.code == 1 and "'' is neither an algorithm nor a file" in got.err


def test_prove_prints_the_numbers_of_ranks_it_proved(ringtree: Ringtree) -> None:
    got = ringtree("prove", "ring", "--collective", "all_gather", "-n", "2,4,6-7,16")
    assert got.out.splitlines()[1].split()[2:4] == ["2,4,6-7,16", "5"]


def test_prove_all_proves_every_pair(ringtree: Ringtree) -> None:
    got = ringtree("prove", "all", "--ranks", "2")
    rows = [tuple(line.split()[:2]) for line in got.out.splitlines()[1:-1]]
    assert got.code == 0 and rows == pairs()


def test_a_schedule_with_switches_is_proved_without_programs(ringtree: Ringtree, tmp_path: Path) -> None:
    file = tmp_path / "through.txt"
    file.write_text(
        "schedule through broadcast: 2 ranks, 1 chunks, 1 scratch, 1 switches, root 0\n"
        "once: 0 data[0] -> 2 scratch[0]\nonce: 2 scratch[0] -> 1 data[0]\n"
    )
    got = ringtree("prove", str(file))
    assert got.code == 0 and "no programs: the schedule has 1 switch, and programs are written for ranks" in got.out


def test_prove_refuses_a_wrong_file_and_names_the_line(ringtree: Ringtree, tmp_path: Path) -> None:
    path = tmp_path / "wrong.txt"
    path.write_text(RING.replace("3 times, chunk -1: r data[r] ->", "2 times, chunk -1: r data[r] ->"))
    got = ringtree("prove", str(path))
    assert got.code == 1
    assert "ring all_reduce over 4 ranks: rank 0 chunk" in got.err and "expected the sum of ranks 0..3" in got.err
    path.write_text(RING)
    got = ringtree("prove", str(path))
    assert got.code == 0 and "24 transfers" in got.out
    assert "leave -n/--ranks out" in ringtree("prove", str(path), "-n", "8").err
    assert "not for broadcast" in ringtree("prove", str(path), "--collective", "broadcast").err


def test_algorithms_are_all_listed(ringtree: Ringtree) -> None:
    rows = ringtree("algorithms", "--markdown").out.splitlines()[2:]
    assert [row.partition("]")[0].lstrip("| [") for row in rows] == list(REGISTRY)
    page = ringtree("algorithms", "--page").out
    for name, collective in pairs():
        section = page.split(f"\n## {name}\n")[1].split("\n## ")[0]
        assert f"| {collective} | `{REGISTRY[name].costs[collective].rounds}` |" in section
    shown = ringtree("algorithms", "--collective", "all_reduce").out
    assert "2*(n-1)/n*S" in shown and "barrier" not in shown


@pytest.mark.parametrize("words", [["algorithms"], ["topo", "list"]])
def test_a_reader_that_has_gone_ends_a_command_by_141(words: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb") as pipe:
        done = subprocess.run([sys.executable, "-m", "ringtree.cli", *words], stdout=pipe, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (141, b"")


def test_show_draws_a_schedule(ringtree: Ringtree, tmp_path: Path) -> None:
    drawn = ringtree("show", "ring", "-n", "4", "--picture").out
    assert "round 0    ●───3──⊕●───0──⊕●───1──⊕│\n" in drawn and drawn.endswith("of scratch\n")
    path = tmp_path / "ring.txt"
    path.write_text(RING)
    assert ringtree("show", str(path), "--picture").out == drawn
    wide = ringtree("show", "ring", "-n", "32", "--picture").out
    assert wide.startswith("# 32 columns do not fit a page of 100") and wide.endswith("r data[r] -> r+1\n")
    assert parse_schedule(wide) == REGISTRY["ring"].build("all_reduce", 32)
    for option in (["-n", "4"], ["--root", "0"], ["--bytes", "64"], ["--option", "a=1"]):
        assert "applies to algorithms, not to files" in ringtree("show", str(path), *option).err
    assert "-n/--ranks applies to algorithms" in ringtree("show", str(path), "-n", "4").err


def test_info_describes_the_machine(ringtree: Ringtree) -> None:
    assert json.loads(ringtree("info", "--json").out)["ringtree"] == package.__version__
    assert "cores" in ringtree("info").out


@pytest.mark.parametrize("words", [["version"], ["--version"]])
def test_version(ringtree: Ringtree, words: list[str]) -> None:
    assert ringtree(*words).out == f"ringtree {package.__version__}\n"


@pytest.mark.parametrize("command", ["run", "prove", "show", "bench", "algorithms", "doctor", "info", "version"])
def test_every_command_has_help(ringtree: Ringtree, command: str) -> None:
    got = ringtree(command, "--help")
    assert got.code == 0 and got.out.startswith(f"usage: ringtree {command}")


def test_run_starts_ranks_and_passes_their_end_on(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, numpy, ringtree\n"
        "comm = ringtree.init()\n"
        "print('sum', comm.all_reduce(numpy.array([comm.rank + 1]))[0])\n"
        "comm.close()\n"
        "sys.exit(int(sys.argv[1]) * comm.rank)\n"
    )
    words = [sys.executable, "-m", "ringtree.cli", "run", "-n", "3", str(program)]
    done = subprocess.run([*words, "0"], capture_output=True, text=True)
    assert done.returncode == 0 and sorted(done.stdout.splitlines()) == [f"[{r}] sum 6" for r in range(3)]
    done = subprocess.run([*words, "7"], capture_output=True, text=True)
    assert done.returncode in (7, 14) and "exited with code" in done.stderr


def modules(script: str) -> set[str]:
    """The modules that the script loads in a new interpreter."""
    script = f"import sys; before = set(sys.modules); {script}; print('loaded', *set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("loaded ")[2].split())


@pytest.mark.parametrize(("use", "allowed"), [("", set()), ("; ringtree.init", {"numpy"})])
def test_importing_ringtree_loads_numpy_at_most(use: str, allowed: set[str]) -> None:
    loaded = {module.split(".")[0] for module in modules("import ringtree" + use)}
    strangers = {m for m in loaded if m not in sys.stdlib_module_names and not m.startswith("_")} - {"ringtree"}
    assert strangers <= allowed


def test_every_collective_is_served() -> None:
    assert {c for _, c in pairs()} == set(COLLECTIVES)


def test_a_command_loads_its_own_file_alone() -> None:
    loaded = modules("from ringtree.cli import main; main(['version'])")
    assert {m for m in loaded if m.startswith("ringtree")} == {
        "ringtree", "ringtree.cli", "ringtree.cli.options", "ringtree.cli.options.running",
        "ringtree.cli.options.running.version", "ringtree.cli.version",
    }  # fmt: skip
    assert not loaded & {"numpy", "rich", "subprocess", "asyncio"}


def test_the_launcher_starts_ranks_without_numpy() -> None:
    loaded = modules("from ringtree.cli import main; assert not main(['run', '-n', '1', 'true'])")
    assert "ringtree.runtime.launch.launch" in loaded
    assert not loaded & {
        "numpy",
        "ringtree.formats",
        "ringtree.runtime.tracing.files",
        "tempfile",
        "importlib.metadata",
    }


def test_info_names_the_cores_of_several_nodes(tmp_path: Path) -> None:
    tree = SysTree(tmp_path)
    tree.node(0, range(4), 0, "10 21")
    assert numa(Sysfs(tmp_path)) == ""
    tree.node(1, range(4, 8), 1, "21 10")
    assert numa(Sysfs(tmp_path)) == "node 0: cores 0-3; node 1: cores 4-7"


def test_help_lists_each_command_once_within_a_terminals_width(ringtree: Ringtree) -> None:
    code, out, _ = ringtree("--help")
    assert code == 0 and max(map(len, out.splitlines())) <= 80
    for name, line in COMMANDS.items():
        assert out.count(f"  {name:13}  {line}\n") == 1
