"""Names of a package, and attributes that need such names, which are loaded when they are first used.

A rank of a job needs few of them: most of its start would be the import of planner and prover, which one rank uses.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Generic, TypeVar, overload

Owner = TypeVar("Owner")
Value = TypeVar("Value")


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


class Attribute(Generic[Owner, Value]):
    """The decorator of an attribute that is made at its first use, and is the instance's own from then on: threads that
    come at once get the same one. (Of `functools.cached_property` each may get its own, from Python 3.12 on.)"""

    def __init__(self, make: Callable[[Owner], Value]) -> None:
        self._make, self._name, self.__doc__ = make, make.__name__, make.__doc__

    @overload
    def __get__(self, instance: None, owner: type[Owner]) -> Attribute[Owner, Value]: ...
    @overload
    def __get__(self, instance: Owner, owner: type[Owner]) -> Value: ...
    def __get__(self, instance: Owner | None, owner: type[Owner]) -> Attribute[Owner, Value] | Value:
        if instance is None:
            return self
        made: Value = vars(instance).setdefault(self._name, self._make(instance))
        return made
