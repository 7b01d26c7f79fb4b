"""Stands for packages that SGLang imports for GPUs, pictures and sounds, and that have no build for CPUs on PyPI: each
name in them is an empty class. Python runs this file in every process whose PYTHONPATH has its folder."""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, ClassVar

ABSENT = {"cutlass", "sgl_kernel", "torchaudio", "torchvision"}


def _is_special(name: str) -> bool:
    return name.startswith("__")


class Names(type):
    """The type of a class that has every attribute, each a text."""

    def __getattr__(cls, name: str) -> str:
        if _is_special(name):
            raise AttributeError(name)
        return f"{cls.__name__}.{name}"


class Empty(ModuleType):
    """A module with an empty class for each name that is asked for."""

    __version__ = "0"
    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if _is_special(name):
            raise AttributeError(name)
        setattr(self, name, Names(name, (), {}))
        return getattr(self, name)


class Finder(MetaPathFinder, Loader):
    """Finds the absent packages, and all modules below them."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in ABSENT else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Empty(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


sys.meta_path.append(Finder())
