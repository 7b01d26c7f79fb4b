"""The documentation is true: its programs run, its commands print what it shows, its links lead somewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.faults_of_peers import in_short, line, rows
from ringtree.runtime import types
from ringtree.runtime.communicator.collectives.coalesced import Coalesced
from ringtree.runtime.communicator.collectives.collectives import Collectives
from ringtree.runtime.communicator.collectives.objects import Objects
from ringtree.runtime.communicator.collectives.reductions import Reductions
from ringtree.runtime.communicator.collectives.uneven import UnevenCollectives
from ringtree.runtime.communicator.messages.point_to_point import PointToPoint
from tests.torch_backend.suite.outcomes import Outcome
from tests.torch_backend.suite.table import as_json, markdown

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TYPES = re.compile(r"(<!-- written from ringtree\.runtime\.types.*? -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def blocks(kind: str) -> list[tuple[str, str]]:
    """(where, text) of the fenced blocks of that kind."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in re.finditer(rf"^```{kind}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            line = text.count("\n", 0, match.start()) + 1
            found.append((f"{page.relative_to(ROOT)}:{line}", match[1]))
    return found


def shell(command: str, folder: Path) -> str:
    """The output of a command, both streams, with `ringtree` being this interpreter's."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "NO_COLOR": "1", "COLUMNS": "80"}
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=env, capture_output=True, text=True)
    return done.stdout + done.stderr


def matches(shown: str, printed: str) -> bool:
    """Whether `printed` is what is shown, where `...` stands for anything."""
    pattern = re.escape(shown.strip()).replace(re.escape("..."), ".*")
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


@pytest.mark.docs
@pytest.mark.parametrize(("where", "text"), blocks("python"), ids=[where for where, _ in blocks("python")])
def test_a_program_runs(where: str, text: str, tmp_path: Path) -> None:
    program = tmp_path / "shown.py"
    program.write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if where.startswith("README"):
        assert done.stdout == "".join(f"rank {r} of 4 has 6.0\n" for r in range(4))


LONG = ("--nodes 12500",)
"""Commands that take some seconds."""


@pytest.mark.docs
@pytest.mark.parametrize(
    ("where", "text"),
    [
        pytest.param(where, text, id=where, marks=[pytest.mark.slow] if any(what in text for what in LONG) else [])
        for where, text in blocks("console")
    ],
)
def test_a_command_prints_the_shown_text(where: str, text: str, tmp_path: Path) -> None:
    for folder in ("examples", "benchmarks"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        printed = shell(command, tmp_path)
        assert matches(shown, printed), f"{where}: {command}\n{printed}"


def test_the_table_of_algorithms_leads_to_their_sections() -> None:
    table = shell("ringtree algorithms --markdown", ROOT)
    page = (ROOT / "docs" / "algorithms.md").read_text(encoding="utf-8")
    names = re.findall(r"\]\(docs/algorithms\.md#(\w+)\)", table)
    assert names and [name for name in names if f"\n## {name}\n" not in page] == [], table


def test_the_readme_is_three_screens() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 130


def test_the_page_of_algorithms_is_the_registrys(request: pytest.FixtureRequest) -> None:
    page = ROOT / "docs" / "algorithms.md"
    text = shell("ringtree algorithms --page", ROOT)
    assert text.startswith("# Algorithms\n"), text
    if request.config.getoption("--update-golden"):
        page.write_text(text, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == text, "pytest tests/test_docs.py --update-golden writes it"


def test_the_table_of_types_is_the_engines(request: pytest.FixtureRequest) -> None:
    page = ROOT / "docs" / "types.md"
    text = page.read_text(encoding="utf-8")
    if request.config.getoption("--update-golden"):
        text = TYPES.sub(lambda m: m[1] + types.markdown() + m[3], text)
        page.write_text(text, encoding="utf-8")
    found = TYPES.search(text)
    assert found is not None and found[2] == types.markdown(), "pytest tests/test_docs.py --update-golden writes it"


def test_the_commands_make_lists_are_in_the_readme() -> None:
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in ("demo", "test"):
        line = next(x for x in listed.splitlines() if x.split()[1] == target)
        assert f"make {target}" in text and line.split(maxsplit=2)[2].split(" (")[0] in text


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    titles = [re.sub(r"\]\([^)]*\)", "", title) for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_links_lead_somewhere() -> None:
    broken = []
    for page in [*PAGES, ROOT / "CHANGELOG.md", ROOT / "SECURITY.md", ROOT / "benchmarks" / "README.md"]:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            name, _, anchor = target.partition("#")
            there = page.parent / name if name else page
            lost = not there.exists() or bool(anchor and there.suffix == ".md" and anchor not in anchors(there))
            if "://" not in target and lost:
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert not broken


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = (folder / "README.md").read_text(encoding="utf-8")
    assert [p.name for p in sorted(folder.glob("0*.md")) if p.name not in listed] == []


def test_the_architecture_names_every_room() -> None:
    rooms = {p.name for p in (ROOT / "src" / "ringtree").iterdir() if p.is_dir() and p.name[0] != "_"}
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    contract = (ROOT / ".importlinter").read_text(encoding="utf-8")
    assert not [room for room in rooms if f"\n      {room}/" not in text]
    assert not [room for room in rooms if not re.search(rf"\b{room}\b", contract)]


def test_the_page_of_calls_has_every_call_there_is() -> None:
    families = (Reductions, Collectives, UnevenCollectives, Objects, Coalesced, PointToPoint)
    methods = {name for family in families for name in vars(family) if not name.startswith("_")} - {"execute"}
    named = set(re.findall(r"`([a-z_]+)\(", (ROOT / "docs" / "calls.md").read_text(encoding="utf-8")))
    assert named == methods


def test_the_peers_record_is_the_table() -> None:
    """benchmarks/README.md and the file beside it have the same figures."""
    text = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8").split("\n## ")[1]
    units = {"": 1, "KiB": 1024, "MiB": 1024**2}
    cells = re.findall(r"^\| (\d+) ?(\w*) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", text, re.MULTILINE)
    table = {int(n) * units[unit]: [float(t) for t in times] for n, unit, *times in cells}
    rows = json.loads((ROOT / "benchmarks" / "all_reduce_peers_2_ranks.json").read_text(encoding="utf-8"))["rows"]
    assert len(table) == 7
    assert {n: [r["in_place_time_us"] for r in rows if r["nbytes"] == n] for n in table} == table


def rows_of(page: str, heading: str) -> list[str]:
    """The rows of the first table below a heading, without its head."""
    lines = (ROOT / page).read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0].splitlines()
    return [found for found in lines if found.startswith("| ")][2:]


def test_the_record_of_the_peers_faults_is_the_table() -> None:
    """benchmarks/README.md has the rows that the record beside it makes, and docs/faults.md the same in short."""
    trials = json.loads((ROOT / "benchmarks" / "faults_of_peers.json").read_text(encoding="utf-8"))["trials"]
    made, short = [line(row) for row in rows(trials)], [line(row) for row in in_short(trials)]
    assert len(made) > 30 and rows_of("benchmarks/README.md", "Faults of the peers") == made
    assert len(short) == 8 and rows_of("docs/faults.md", "Beside Gloo and the MPIs") == short


def test_the_page_of_pytorchs_suite_is_the_records() -> None:
    """docs/torch_suite.md is what the record of `make test-torch-suite` makes."""
    record = json.loads((ROOT / "benchmarks" / "torch_suite.json").read_text(encoding="utf-8"))
    rows = {
        test: {
            face: Outcome(test, found["status"], found["reason"], ranks, found["took_s"], True)
            for face, found in faces.items()
        }
        for test, ranks, faces in (
            (row["test"], row["ranks"], {k: v for k, v in row.items() if isinstance(v, dict)}) for row in record
        )
    }
    page = (ROOT / "docs" / "torch_suite.md").read_text(encoding="utf-8")
    version = re.search(r"^PyTorch (\S+) carries", page, re.MULTILINE)
    assert version is not None and as_json(rows) == record
    assert page == markdown(rows, version[1])
