"""ringtree.mpi in the place of mpi4py.MPI, for programs whose import line stays as it is."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

from ringtree.mpi.messages.messages import ROOM
from ringtree.mpi.missing import Missing

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


class _Settings(SimpleNamespace):
    """mpi4py.rc, which nothing here reads: a program sets its attributes, or calls it with them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            initialize=True,
            threads=True,
            thread_level="multiple",
            finalize=None,
            fast_reduce=True,
            recv_mprobe=True,
            irecv_bufsz=ROOM,
            errors="exception",
        )
        self(**settings)

    def __call__(self, **settings: Any) -> None:
        for name, value in settings.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(self, name):
            raise TypeError(f"mpi4py.rc has no {name!r}; expected one of {', '.join(vars(self))}")
        super().__setattr__(name, value)


def _missing(name: str) -> NoReturn:
    if name == "get_include":
        raise Missing("mpi4py.get_include: there are no headers in C; ringtree.mpi is for programs in Python")
    raise AttributeError(f"module 'mpi4py' of ringtree.mpi has no attribute {name!r}")


def _bare() -> ModuleType:
    """A package mpi4py that has its settings and no modules but MPI."""
    package: Any = ModuleType("mpi4py", "ringtree.mpi under the name mpi4py")
    package.__path__ = []
    package.__version__ = NAMES_OF
    package.__spec__ = ModuleSpec("mpi4py", None, is_package=True)  # of which importlib.util.find_spec asks
    package.rc = sys.modules["mpi4py.rc"] = _Settings()  # type: ignore[assignment]
    package.get_config = dict
    package.__getattr__ = _missing
    sys.modules["mpi4py"] = package
    return package  # type: ignore[no-any-return]
