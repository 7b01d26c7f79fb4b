"""The names of a package that are loaded when they are first used.

A rank of a job needs few of them: most of its start would be the import of planner and prover, which one rank uses.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def names(package: str, modules: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """The `__getattr__` of a package: the names of each of its modules. No module may have the name of a name."""
    home = {name: f"{package}.{module}" for module, found in modules.items() for name in found}

    def loaded(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return loaded
