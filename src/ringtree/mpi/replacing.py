"""ringtree.mpi in the place of mpi4py.MPI, for programs whose import line stays as it is."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

NAMES_OF = "4.1.2"
"""The release of mpi4py whose names ringtree.mpi follows."""


def replace() -> None:
    """From now on `from mpi4py import MPI` in this process means ringtree.mpi. A package mpi4py that is installed keeps
    its other modules (mpi4py.futures, mpi4py.util), which then call ringtree; where none is, a bare one stands in.
    RuntimeError: if mpi4py.MPI is loaded already."""
    ours = sys.modules["ringtree.mpi"]
    loaded = sys.modules.get("mpi4py.MPI")
    if loaded is not None and loaded is not ours:
        raise RuntimeError("mpi4py.MPI is loaded already; expected ringtree.mpi.replace() before its first import")
    found = "mpi4py" in sys.modules or importlib.util.find_spec("mpi4py") is not None
    package: Any = importlib.import_module("mpi4py") if found else _bare()
    sys.modules["mpi4py.MPI"] = ours
    package.MPI = ours


def _bare() -> ModuleType:
    """A package mpi4py that has its settings, which nothing here reads, and no modules but MPI."""
    package: Any = ModuleType("mpi4py", "ringtree.mpi under the name mpi4py")
    package.__path__ = []
    package.__version__ = NAMES_OF
    package.rc = SimpleNamespace(initialize=True, finalize=True, threads=True, thread_level="multiple")
    package.get_config = dict
    sys.modules["mpi4py"] = package
    return package  # type: ignore[no-any-return]
