"""What ringtree declares of UCX's binary interface equals what an installed UCX's own headers declare."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_structures_and_numbers_are_those_of_the_headers() -> None:
    wheel = importlib.util.find_spec("libucx")
    folders = [Path(folder) / "include" for folder in (wheel and wheel.submodule_search_locations) or []]
    headers = next((f for f in [*folders, Path("/usr/include")] if (f / "ucp/api/ucp.h").exists()), None)
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if headers is None or compiler is None:
        pytest.skip("no C++ compiler, or no headers of UCX (pip install libucx-cu12 has them)")
    command = [compiler, "-std=c++20", "-fsyntax-only", f"-I{ROOT}/csrc", "-isystem", str(headers)]
    done = subprocess.run([*command, str(ROOT / "tests/csrc/ucx_abi.cc")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
