"""What a release says about itself agrees, and the workflows are workflows."""

from __future__ import annotations

import ast
import re
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

import ringtree

ROOT = Path(__file__).parent.parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
STEP = {"name", "id", "if", "uses", "with", "run", "env", "shell", "working-directory", "timeout-minutes"}
JOB = {"name", "if", "needs", "runs-on", "environment", "permissions", "strategy", "timeout-minutes", "env", "steps"}


def test_the_version_is_one_and_semantic() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert re.fullmatch(r"\d+\.\d+\.\d+", ringtree.__version__)
    assert str(cited["version"]) == version("ringtree") == ringtree.__version__
    assert {"cff-version", "message", "title", "authors"} <= set(cited)


def extras() -> dict[str, list[str]]:
    """The requirements of each extra, as pyproject.toml has them; read without tomllib, which Python 3.10 lacks."""
    text = (ROOT / "pyproject.toml").read_text()
    section = text.split("[project.optional-dependencies]\n")[1].split("\n[")[0]
    return {name: ast.literal_eval(those) for name, those in re.findall(r"^(\w+) = (\[.*?\])$", section, re.M | re.S)}


def in_words(requirements: list[str]) -> str:
    """`torch 2.7 or later`, `a 13 and b 13, on Linux`."""
    words, markers = [], set()
    for requirement in requirements:
        what, _, marker = requirement.partition("; ")
        found = re.fullmatch(r"([\w-]+)(?:>=([\d.]+)(?:,<(\d+))?)?", what)
        assert found, requirement
        name, least, below = found.groups()
        assert not below or int(below) == int(least) + 1
        words.append(f"{name} {least}{'' if below else ' or later'}" if least else name)
        markers.add(marker)
    [marker] = markers
    return " and ".join(words) + {"": "", "platform_system == 'Linux'": ", on Linux"}[marker]


def test_the_page_of_installing_lists_the_extras_and_what_they_bring() -> None:
    listed = re.findall(r"^\| `(\w+)` \| (.*?) \|", (ROOT / "docs" / "installing.md").read_text(), re.MULTILINE)
    brought = {
        name: in_words(those) for name, those in extras().items() if name != "dev"
    }  # which `make setup` installs
    assert dict(listed) == brought and [name for name, _ in listed] == list(brought)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_jobs_of_steps(path: Path) -> None:
    flow = yaml.safe_load(path.read_text())
    assert set(flow) == {"name", True, "permissions", "jobs"}  # `on` is YAML's word for true
    for name, job in flow["jobs"].items():
        assert {"runs-on", "steps"} <= set(job) <= JOB, name
        assert set(job.get("needs", [])) <= set(flow["jobs"]), name
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step) and set(step) <= STEP, (name, step)


def test_the_workflows_run_what_a_developer_runs() -> None:
    jobs = [job for path in WORKFLOWS for job in yaml.safe_load(path.read_text())["jobs"].values()]
    steps = [step.get("run", "") for job in jobs for step in job["steps"]]
    assert any(".ci/run" in step for step in steps) and any("make wheels" in step for step in steps)
    assert any("cibuildwheel" in step for step in steps)
