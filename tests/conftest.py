"""Shared by all tests: the folder of third-party data, and settings that make tests quick."""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("RINGTREE_EXAMPLES", "25"))
"""Of a property: few in the quick tests; `make test-long` looks at more."""
settings.register_profile(
    "ringtree",
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("ringtree")  # how long an example takes is the machine's doing; pytest's timeout ends what hangs

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Real files that nobody here wrote; they are no part of the project."""
    folder = Path(os.environ.get("RINGTREE_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no third-party data at {folder}: set RINGTREE_DATA")
    return folder


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden from what the code prints now")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Adds up what the mutation tests recorded: how many wrong schedules were caught, how many shown harmless."""
    counts = Counter[str]()
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "mutants":
                counts.update(value)
    if counts:
        summary = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("caught", "harmless", "illegal"))
        terminalreporter.write_line(f"schedules with one wrong transfer: {summary}")


@pytest.hookimpl(tryfirst=True)  # before the marks are asked for
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what needs the browser, several hosts or torch. Without torch or Ray the tests that need them are skipped;
    with RINGTREE_TORCH_REQUIRED=1 or RINGTREE_RAY_REQUIRED=1 that fails."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)
        if "lab" in getattr(item, "fixturenames", ()) or "hosts" in item.path.relative_to(ROOT).parts:
            item.add_marker(pytest.mark.hosts)
        if {"torch_backend", "training"} & {*item.path.relative_to(ROOT).parts}:
            item.add_marker(pytest.mark.torch)
    for package in ("torch", "ray"):
        needing = [item for item in items if item.get_closest_marker(package)]
        if importlib.util.find_spec(package) or not needing:
            continue
        if os.environ.get(variable := f"RINGTREE_{package.upper()}_REQUIRED") == "1":
            raise pytest.UsageError(f"{variable}=1, but there is no {package}: make test-{package} installs it")
        for item in needing:
            item.add_marker(pytest.mark.skip(reason=f"no {package}: make test-{package} installs it"))


def pytest_collection_finish() -> None:
    """Thousands of tests stay to the end: gc looks at none of them again, nor do forked ranks copy them in doing so."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Refuses that a test leaves torch's default group to the next one, which would take its processes for ranks."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()
        pytest.fail("torch's default group is left")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """golden(path, text): the text is that of tests/golden/`path`; with --update-golden it becomes it."""

    def compare(path: str, text: str) -> None:
        file = ROOT / "tests" / "golden" / path
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text + "\n")
        assert file.exists(), f"no {file.relative_to(ROOT)}; pytest --update-golden writes it"
        assert text + "\n" == file.read_text(), f"{path} differs; if it should change: pytest --update-golden"

    return compare
