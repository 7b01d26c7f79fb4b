"""Every command that a page, a docstring or a help text shows: all parse, and quick ones run."""

from __future__ import annotations

import argparse
import ast
import os
import pickle
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import metadata
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from ringtree.algorithms import build
from ringtree.cli import COMMANDS, main, parser_for
from ringtree.ir.text import format_schedule
from ringtree.simulate.device.constants import ConstantsFile, DeviceConstants, dumps
from tests.formats import writing
from tests.formats.flight.recorded import document, entry
from tests.machines.test_nvidia_smi import EIGHT, square, text
from tests.simulate.device.msccl_ring import all_gather_ring
from tests.sources import parsed, statements
from tests.test_docs import blocks

ROOT = Path(__file__).parent.parent
STARTS = r"(?:ringtree|torchrun|python3?|make|pip)"
STAND_INS = {
    "FILE": "schedule.txt", "FOLDER": "folder", "LOG": "run.log", "MACHINE": "azure-nc96", "NAME": "ring",
    "NAME|FILE": "dgx-h100", "C": "all_reduce", "N": "4", "…": "dgx-h100", "COMMAND": "info",
}  # fmt: skip
LONG = ("prove all", "--fit", "bench ", "ringtree tune", "--ranks 2:100000", "--nodes 12500", "digits.py")
"""Commands that take more than a moment, for the long campaign."""
OUTSIDERS = ("mpi4py-fft", "torchft==0.2.0", "nvidia-cufile", "dist/WHEEL.whl")
"""What else pip installs: programs that stand on ringtree, a library of a GPU's host, and what `make wheels` built."""
WRONG = "there_and_half_back"
"""An algorithm that is shown because it is refused."""


def sources() -> Iterator[tuple[Path, str]]:
    """Pages but for decisions, which are of their day; docstrings."""
    pages = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "benchmarks").glob("*.md"),
    ]
    for page in sorted(set(pages) - set((ROOT / "docs" / "decisions").iterdir())):
        yield page, page.read_text(encoding="utf-8")
    for room in ("src", "examples", "benchmarks"):
        for path in sorted((ROOT / room).rglob("*.py")):
            module = parsed(path) if re.search(STARTS + " ", path.read_text(encoding="utf-8")) else None
            for node in [module, *statements(module)] if module else ():
                if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (doc := ast.get_docstring(node)):
                    yield path, doc


def shown() -> tuple[list[str], list[str]]:
    """Commands on lines of their own, and those within a sentence, which may be less than whole."""
    lines, inline = dict[str, None](), dict[str, None]()
    for path, words in sources():
        margin = r"(?: {4,}|\$ )" if path.suffix == ".md" else r"(?: {4,}|)"
        for found in re.findall(rf"^{margin}({STARTS} .*)$", words, re.MULTILINE):
            command = re.split(r"\s{2,}", found)[0]
            if not re.match(r"make [^a-z]|make lg|ringtree in |ringtree \w+: ", command):  # sentences, errors
                lines.update(dict.fromkeys(command.split("; ")))
        inline.update(dict.fromkeys(re.findall(rf"`({STARTS} [^`\n]+)`", words)))
    return sorted(lines), sorted(set(inline) - set(lines))


LINES, INLINE = shown()


def of(program: str, commands: list[str]) -> list[str]:
    return [command for command in commands if command.startswith(f"{program} ")]


def words_of(command: str) -> list[str]:
    """The arguments, stand-ins for those in capitals, without what the shell does with the output."""
    words = shlex.split(command.split(" > ")[0].replace("[", "").replace("]", ""))[1:]
    return [STAND_INS.get(word, word) for word in words]


def understood(words: list[str]) -> argparse.Namespace:
    return parser_for(words[0]).parse_args(words)


@pytest.mark.parametrize("command", of("ringtree", LINES))
def test_every_shown_command_parses(command: str) -> None:
    assert understood(words_of(command)).command in COMMANDS


@pytest.mark.parametrize("command", of("ringtree", INLINE))
def test_quoted_options_exist(command: str) -> None:
    name, *words = words_of(command)
    if name == "topo" and words:
        name, words = f"topo {words[0]}", words[1:]
    options = help_of(name.split()).replace("\n", " ")
    for word in words:
        assert not word.startswith("-") or re.search(rf"(?<![\w-]){word}(?![\w-])", options), word


def help_of(words: list[str]) -> str:
    parser: argparse.ArgumentParser = parser_for(words[0])
    for word in words:
        chosen = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction)).choices
        assert word in chosen, f"no command {' '.join(words)}"
        parser = chosen[word]
    return parser.format_help()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of every name that a command reads."""
    there = tmp_path_factory.mktemp("shown")
    for name in ("examples", "benchmarks"):
        shutil.copytree(ROOT / name, there / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("rows.json", "before.json", "after.json"):
        shutil.copy(ROOT / "benchmarks" / "all_reduce_peers_2_ranks.json", there / name)
    (there / "matrix.txt").write_text(text(EIGHT, square(EIGHT, {}, "NV4"), [["0-7", "0", "N/A"]] * len(EIGHT)))
    sizes = [8 << k for k in range(28)]
    (there / "run.log").write_text("".join(f"{n} {n // 4} float sum -1 {50 + n / 3e5} 0 0 0\n" for n in sizes))
    (there / "table.csv").write_text(
        "size_B,count,type,oop_time_us\n" + "".join(f"{n},{n // 4},float,{50 + n / 1e5}\n" for n in sizes)
    )
    for path in (there / "folder", there):
        path.mkdir(exist_ok=True)
        for rank in range(4):
            (path / f"rank_{rank}").write_bytes(pickle.dumps(document([entry("all_reduce", 1)], 4, {})))
    for channels in (4, 8):
        (there / f"ring_{channels}.xml").write_text(all_gather_ring(8, channels))
        (there / f"times_{channels}.csv").write_text(
            "size_B,count,type,ip_time_us\n" + "".join(f"{n},{n // 32},float,{30 + n / 3e4}\n" for n in sizes[4:])
        )
    constants = {"Simple": DeviceConstants(1e-5, 2e-6, 2e10, piece_nbytes=1 << 21, slices=2)}
    (there / "mi300x.json").write_text(dumps(ConstantsFile(constants, "mi300x8")))
    (there / "package").mkdir()
    for name in ("program.py", "train.py", "package/module.py"):
        (there / name).write_text("import ringtree\ncomm = ringtree.init()\nprint(comm.all_reduce(1))\n")
    (there / "mine.py").write_text(
        "from ringtree.algorithms import build\n\ndef function(ranks):\n    return build('ring', 'all_reduce', ranks)\n"
    )
    (there / "compiled").write_text("#!/bin/sh\necho $RINGTREE_RANK\n")
    (there / "compiled").chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(there)
        for command in (
            "topo show dgx-h100 --xml topo.xml --json here.json",
            "plan all_reduce --topology azure-nc96 --bytes 1M --export-graph graph.xml",
            "tune -n 2 --seconds 0.5 --maxbytes 64K --output machine.json",
            "bench all_reduce -n 2 -b 1M -e 1M --iters 2 --algorithm ring --trace real.json.gz",
            "simulate ring -n 2 --bytes 1M --trace simulated.json.gz --goal ring.goal --chakra ring",
        ):
            assert main(command.split()) == 0
    for name in ("sim", "trace", "run", "step", "bench", "ddp"):
        shutil.copy(there / "simulated.json.gz", there / f"{name}.json.gz")
    (there / "ring.xml").write_text(writing.ring(2))
    for name in ("schedule.txt", "mine.txt", "ring.txt"):
        (there / name).write_text(format_schedule(build("ring", "all_reduce", 4)))
    return there


ELSEWHERE = {line for _, text in blocks("console") for line in re.findall(r"^\$ (.*)$", text, re.MULTILINE)}
"""Commands that tests/test_docs.py runs, to see that they print what is shown."""


def runs(command: str) -> bool:
    """Whether it needs neither torch, nor other hosts by ssh (tests/runtime/hosts/test_run_over_hosts.py,
    tests/cli/test_ps_hosts.py), nor a job that hangs (tests/cli/test_stack.py)."""
    over_ssh = "--hosts" in command and command.startswith(("ringtree run", "ringtree doctor", "ringtree ps"))
    return not command.startswith(("ringtree train", "ringtree stack")) and not over_ssh and command not in ELSEWHERE


@pytest.mark.docs
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, marks=[pytest.mark.slow] if any(what in command for what in LONG) else [])
        for command in filter(runs, of("ringtree", LINES))
    ],
)
def test_it_runs(
    command: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(shutil.copytree(folder, tmp_path / "here"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    words = ["2" if before == "-n" and word == "4" else word for before, word in pairwise(["", *words_of(command)])]
    if any(".py:" in word for word in words):  # an algorithm of one's own is a process's own
        done = subprocess.run(
            [sys.executable, "-m", "ringtree.cli", *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == (WRONG in command), done.stderr
        return
    assert main(words) == 0, capsys.readouterr().err


WRITTEN = {"--html", "--trace", "--picture", "--checkpoint", "--every", "--keep"}
"""Options with a value for what a training writes, which a plan does not take."""


PLANNED = [c for c in of("ringtree train", LINES) if "--plan" not in c or c not in ELSEWHERE]
"""Trainings, and plans of them that nothing else makes."""


@pytest.mark.parametrize("command", PLANNED)
def test_its_layout_can_be_trained(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for before, word in pairwise(["", *words_of(command)]) if not {before, word} & WRITTEN]
    words = [word for word in words if word != "--resume"]
    assert main(words if "--plan" in words else [*words, "--plan"]) == 0
    assert " rank" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(600)
@pytest.mark.parametrize("command", of("ringtree train", LINES))
def test_it_trains(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two steps of it."""
    monkeypatch.chdir(tmp_path)
    assert main([*words_of(command), "--steps", "2"]) == 0


@pytest.mark.parametrize("command", [c for p in ("python", "torchrun") for c in of(p, [*LINES, *INLINE])])
def test_its_program_and_its_options_are_there(command: str) -> None:
    words = words_of(command)
    program = next((ROOT / w for w in words if w.endswith(".py") and w != "train.py"), None)
    if program is not None:
        source = program.read_text(encoding="utf-8")
        named = [w for w in words[words.index(str(program.relative_to(ROOT))) :] if w.startswith("-")]
        assert not [option for option in named if f'"{option}"' not in source]
    elif "ringtree.cli" in words and words[-1] != "ringtree.cli":
        understood(words[words.index("ringtree.cli") + 1 :])


def test_make_has_its_target() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {command.split()[1] for command in of("make", [*LINES, *INLINE])} <= targets


def test_packages_in_pip_commands_are_known() -> None:
    """ringtree is in no index: it is installed from its folder, `.`; other packages are those of pyproject.toml."""
    ours = metadata("ringtree")
    packages = {re.split(r"[^\w.-]", requirement)[0] for requirement in ours.get_all("Requires-Dist", [])}
    known = {".", *OUTSIDERS, *(f".[{extra}]" for extra in ours.get_all("Provides-Extra", [])), *packages}
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    named = {name.strip("'") for words in texts for name in re.findall(r"pip install ('[^']+'|[\w.-]*\w)", words)}
    words = [shlex.split(command)[2:] for command in of("pip", [*LINES, *INLINE])]
    named |= {next(word for word in rest if not word.startswith("-")) for rest in words}
    assert named and named <= known


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_pip_installs_the_folder(tmp_path: Path) -> None:
    """With nothing of an index: what it builds and needs is here."""
    source, there = tmp_path / "source", tmp_path / "there"
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(lambda name: (ROOT / name).is_file(), listed.splitlines()):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    offline = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target", str(there)]
    subprocess.run([sys.executable, "-m", "pip", "install", *offline, "."], cwd=source, check=True)
    python = [sys.executable, "-S"]  # without the .pth file of the editable one
    env = {**os.environ, "PYTHONPATH": f"{there}:{Path(np.__file__).parents[1]}"}
    program = "import ringtree; print(ringtree.__file__, *ringtree.spawn(lambda comm: comm.all_reduce(1), 2))"
    for words, expected in (
        (["-c", program], f"{there}/ringtree/__init__.py 2 2\n"),
        ([f"{there}/bin/ringtree", "prove", "ring", "-n", "4"], "proved 3 schedules"),
    ):
        done = subprocess.run([*python, *words], env=env, cwd=tmp_path, capture_output=True, text=True)
        assert expected in done.stdout, done.stderr
