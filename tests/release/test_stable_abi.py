"""The core keeps to Python's stable ABI, which it is built for from Python 3.12 on: also seen where Python is older."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.conftest import ROOT

SINCE_3_12 = {
    "PyObject_Vectorcall", "PyVectorcall_Call", "PyVectorcall_NARGS", "PY_VECTORCALL_ARGUMENTS_OFFSET",
    "Py_TPFLAGS_HAVE_VECTORCALL",
}  # fmt: skip
"""Parts of the stable ABI that the headers of an older Python do not show as such."""
OF_NUMPY = {"PyArray_DATA", "PyArrayInterface"}
"""Names in comments."""
LIMITED = max(0x030B0000, min(sys.hexversion & 0xFFFF0000, 0x030C0000))
MEMBERS = re.compile(r"->(tp_\w+|ob_\w+|m_\w+|co_\w+)")
"""Of Python's own structures, which are opaque there."""


def sources() -> list[Path]:
    return sorted((ROOT / "csrc").rglob("*.cc")) + sorted((ROOT / "csrc").rglob("*.h"))


def unknown(names: set[str], folder: Path) -> list[str]:
    """Those of the names that Python.h does not declare where the stable ABI alone is asked for."""
    lines = ["#include <Python.h>", "#include <structmember.h>"]
    for name in sorted(names):
        lines += [f"#ifndef {name}", f"namespace of_{name} {{ using ::{name}; }}", "#endif"]
    probe = folder / "probe.cc"
    probe.write_text("\n".join(lines) + "\n", encoding="utf-8")
    compiler = shlex.split(os.environ.get("CXX") or sysconfig.get_config_var("CXX") or "g++")[0]
    command = [compiler, "-std=c++20", "-fsyntax-only", f"-DPy_LIMITED_API={LIMITED:#x}"]
    done = subprocess.run(
        [*command, "-I", sysconfig.get_path("include"), str(probe)], capture_output=True, text=True, check=False
    )
    found = [name for name in names if re.search(rf"‘(::)?{name}’|'(::)?{name}'", done.stderr)]
    assert not done.returncode or found, done.stderr
    return sorted(found)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the stable ABI of Python 3.10 lacks buffers")
def test_no_name_is_beyond_the_stable_abi(tmp_path: Path) -> None:
    used = {name for p in sources() for name in re.findall(r"\b_?Py[A-Z_]\w+", p.read_text(encoding="utf-8"))}
    newer = SINCE_3_12 if LIMITED < 0x030C0000 else set()
    assert unknown(used - newer - OF_NUMPY, tmp_path) == []
    assert unknown({"PyTuple_GET_SIZE", "PyTuple_Size"}, tmp_path) == ["PyTuple_GET_SIZE"]  # it can fail


def test_no_structure_of_pythons_is_opened() -> None:
    assert [(p.name, found) for p in sources() for found in MEMBERS.findall(p.read_text(encoding="utf-8"))] == []
