"""What a release says about itself agrees, and the workflows are workflows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

import ringtree

ROOT = Path(__file__).parent.parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
STEP = {"name", "id", "if", "uses", "with", "run", "env", "shell", "working-directory", "timeout-minutes"}
JOB = {"name", "if", "needs", "runs-on", "environment", "permissions", "strategy", "timeout-minutes", "env", "steps"}


def test_the_version_is_one_and_semantic() -> None:
    given = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert given and re.fullmatch(r"\d+\.\d+\.\d+", given[1])
    assert str(cited["version"]) == given[1] == ringtree.__version__
    assert {"cff-version", "message", "title", "authors"} <= set(cited)


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
