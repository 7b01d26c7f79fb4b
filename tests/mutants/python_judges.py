"""Python's tests over the core, run on a native module that holds a mutant."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
TESTS = (
    "engines/test_native_exchange",
    "engines/test_native",
    "communicator/calls/test_calls",
    "faults/test_mismatches",
    "engines/test_native_faults",
    "faults/test_first_cause",
    "communicator/messages/test_messages",
    "communicator/test_agreement",
)
"""Files of tests/runtime, the quickest to notice first; the others follow, all at once."""
LIMIT_S = 150.0
OTHERS_LIMIT_S = 900.0
PYTEST = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not slow and not torch"]
MODULE = "RINGTREE_MUTANT"
FINDER = f'''"""Every process of the tests loads the native module in {MODULE}."""
import importlib.abc, importlib.util, os, sys

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "ringtree._native":
            return importlib.util.spec_from_file_location(name, os.environ["{MODULE}"])

sys.meta_path.insert(0, Finder())
'''


def verdict(core: list[str], folder: Path, compiler: str) -> str:
    """The file of tests that notices a core of these objects; "" where none does. RuntimeError: it cannot be linked."""
    module = folder / "_native.so"
    link = [compiler, "-shared", "-pthread", *core, *_bindings(), "-ldl", "-o", str(module)]
    done = subprocess.run(link, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the native module of a mutant: {done.stderr[-400:]}")
    (folder / "sitecustomize.py").write_text(FINDER)
    env = {**os.environ, MODULE: str(module), "PYTHONPATH": str(folder)}
    files = [f"tests/runtime/{name}.py" for name in TESTS]
    for file in files:
        if not _passes([*PYTEST, "-n", "0", file], env, LIMIT_S):
            return file
    others = [*PYTEST, "-n", "2", "tests/runtime", "--ignore=tests/runtime/hosts", *(f"--ignore={f}" for f in files)]
    return "" if _passes(others, env, OTHERS_LIMIT_S) else "tests/runtime"


def _passes(command: list[str], env: dict[str, str], limit_s: float) -> bool:
    """Whether they pass in time; what they have started ends with them."""
    with subprocess.Popen(
        command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as tests:
        try:
            return tests.wait(limit_s) == 0
        except subprocess.TimeoutExpired:
            os.killpg(tests.pid, signal.SIGKILL)
            return False


def _bindings() -> list[str]:
    """The bindings' objects and nanobind, as `make setup` has built them."""
    built = sorted((ROOT / "build").glob("cp*/libnanobind-static*.a"))
    if not built:
        raise RuntimeError("no native module is built here; expected `make setup` before")
    newest = max(built, key=lambda library: library.stat().st_mtime)
    objects = sorted((newest.parent / "CMakeFiles/_native.dir").rglob("*.o"))
    return [*map(str, objects), str(newest)]
