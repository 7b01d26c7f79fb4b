"""The rules of the tree as tests: what a reviewer would otherwise repeat."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from ringtree.algorithms import REGISTRY
from tests.sources import parsed, statements

ROOT = Path(__file__).parent.parent
BANNED_NAMES = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}
PURE = ("ir", "topology", "machines", "transform", "algorithms", "verify", "price", "simulate", "draw", "formats")
PURE += ("pages", "search", "plan", "nccl", "files")


def tracked(*patterns: str) -> list[Path]:
    """The project's files of these patterns, as git knows them; all there are where there is no git."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return [p for pattern in patterns for p in ROOT.rglob(pattern) if ".venv" not in p.parts]
    return [ROOT / name for name in listed if (ROOT / name).is_file()]


def test_no_file_is_over_400_lines() -> None:
    long = {
        str(p.relative_to(ROOT)): n
        for p in tracked("*.py", "*.cc", "*.cpp", "*.h", "*.js", "*.mjs", "*.css", "*.html")
        if p.name != "d3.min.js" and (n := len(p.read_text(encoding="utf-8").splitlines())) > 400
    }
    assert not long, f"each is a place to look for a seam: {long}"


def may_be_long(path: Path, most: int) -> bool:
    """Whether a function may have more lines: none where the next as far to the left, or the end, is nearer. To parse
    all files takes seconds."""
    lines = path.read_text(encoding="utf-8").splitlines()
    starts = [(k, len(found[1])) for k, line in enumerate(lines) if (found := re.match(r"( *)(?:async )?def ", line))]
    ends = [
        next((j for j, left in starts[i:] if j > k and left <= own), len(lines)) for i, (k, own) in enumerate(starts)
    ]
    return any(end - k > most for (k, _), end in zip(starts, ends, strict=True))


def test_no_function_is_over_60_lines() -> None:
    long = []
    for path in tracked("src/*.py", "tests/*.py", "examples/*.py", "benchmarks/*.py"):
        if not may_be_long(path, 60):
            continue
        for node in statements(parsed(path)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > 60:
                    long.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name} has {lines} lines")
    assert not long, "\n".join(long)


def test_no_file_has_a_banned_name() -> None:
    bad = [str(p.relative_to(ROOT)) for p in tracked("*") if {p.stem, *p.relative_to(ROOT).parts} & BANNED_NAMES]
    assert not bad


def test_every_module_has_a_docstring() -> None:
    bare = [
        str(p.relative_to(ROOT))
        for p in tracked("src/*.py", "examples/*.py")
        if p.read_text(encoding="utf-8").strip() and not ast.get_docstring(parsed(p))
    ]
    assert not bare


def test_tests_mirror_the_rooms() -> None:
    rooms = {p.name for p in (ROOT / "src/ringtree").iterdir()} | {
        "golden",
        "csrc",
        "release",
        "serving",
        "fuzz",
        "mutants",
    }
    strangers = [
        p.name for p in (ROOT / "tests").iterdir() if p.is_dir() and p.name[0] not in "._" and p.name not in rooms
    ]
    assert not strangers


def test_a_test_that_needs_torch_has_the_mark() -> None:
    """One that skips by itself would be missed by nobody: the mark is what `make test-torch` goes by."""
    found = [
        str(p.relative_to(ROOT))
        for p in tracked("tests/*.py")
        if p != Path(__file__) and 'importorskip("torch' in p.read_text()
    ]
    assert not found


def test_pure_rooms_read_no_environment_and_no_clock() -> None:
    effects = re.compile(r"\bos\.(environ|getenv)\b|^\s*(import|from) (time|random|datetime|socket|subprocess)\b")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for room in PURE
        for path in tracked(f"src/ringtree/{room}/*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if effects.search(line)
    ]
    assert not found, "\n".join(found)


def test_nothing_is_left_to_do_in_the_code() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    found = [
        f"{p.relative_to(ROOT)}:{number}"
        for p in tracked("*.py", "*.cc", "*.cpp", "*.h", "*.js", "*.mjs", "*.css", "*.md", "Makefile")
        for number, line in enumerate(p.read_text(encoding="utf-8").splitlines(), 1)
        if marks.search(line) and p != Path(__file__)
    ]
    assert not found


def test_no_path_or_address_of_anybodys_machine() -> None:
    """The project is the same wherever it lies: no absolute path of a home or a workplace, no host of a registry."""
    bad = re.compile(
        r"(?<![\w.])/(home|root|work|Users|mnt|srv)/\w|https?://(?!www\.apache\.org|github\.com|doi\.org)[\w.]*(pypi|index|mirror)"
    )
    found = [
        f"{p.relative_to(ROOT)}:{number}: {line.strip()}"
        for p in tracked("*")
        if p.suffix not in (".png", ".svg") and p != Path(__file__)
        for number, line in enumerate(p.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if bad.search(line)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", REGISTRY)
def test_every_algorithm_states_its_cost_and_its_source(name: str) -> None:
    algorithm = REGISTRY[name]
    assert re.search(r"\b(19|20)\d\d$", algorithm.source), f"the source of {name} ends with its year"
    for collective, cost in algorithm.costs.items():
        rounds, nbytes = cost.evaluate(8, 1024.0)
        assert rounds >= 1 and nbytes > 0, f"{name} {collective}"
