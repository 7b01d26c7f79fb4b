"""The forms in which torch's process groups take a call: lists of tensors and options, as torch itself calls them; or
one tensor where a list of one is meant, and an operation, a root or a timeout in place of the options."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any

import torch

from ringtree.torch_backend.calls import modes
from ringtree.torch_backend.compiling import opaque
from ringtree.torch_backend.tensors import WithoutData, all_without_data
from ringtree.torch_backend.works.work import GroupWork

Method = Callable[..., GroupWork | None]
ABSENT = object()
"""In place of an argument that was not given."""


def taking(kind: type, **depths: int) -> Callable[[Method], Method]:
    """A decorator for a method whose arguments are these and options of that kind. Depths: 1 for a list of tensors, 2
    for a list of such, 0 for other arguments."""

    def decorate(method: Method) -> Method:
        @opaque
        def call(self: Any, *given: Any, **named: Any) -> GroupWork | None:
            if named or not given or type(given[-1]) is not kind:
                given = _canonical(method.__name__, kind, depths, given, named)
            if not (modes.entered and modes.depth() and modes.skips(method.__name__, given)):
                try:
                    return method(self, *given)
                except WithoutData:
                    if not all_without_data(given):
                        raise
            nothing: GroupWork | None = self.do_nothing(given[0], given[-1])
            return nothing

        @opaque
        def call_of_one(self: Any, x: Any = ABSENT, opts: Any = ABSENT, /, *given: Any, **named: Any) -> Any:
            if (
                type(opts) is kind and not given and not named and not (modes.entered and modes.depth())
            ):  # as torch does: nothing is packed
                try:
                    return method(self, x, opts)
                except WithoutData:  # all of it, or some by mistake
                    pass
            return call(self, *(value for value in (x, opts) if value is not ABSENT), *given, **named)

        @opaque
        def call_of_two(
            self: Any, x: Any = ABSENT, y: Any = ABSENT, opts: Any = ABSENT, /, *given: Any, **named: Any
        ) -> Any:
            if type(opts) is kind and not given and not named and not (modes.entered and modes.depth()):
                try:
                    return method(self, x, y, opts)
                except WithoutData:
                    pass
            return call(self, *(value for value in (x, y, opts) if value is not ABSENT), *given, **named)

        return wraps(method)({1: call_of_one, 2: call_of_two}.get(len(depths), call))

    return decorate


def _canonical(name: str, kind: type, depths: dict[str, int], given: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The arguments as torch itself gives them."""
    rest = list(given)
    arguments = []
    for word, depth in depths.items():
        found = rest.pop(0) if rest else named.pop(word, None)
        if found is None:
            found = named.pop(word.removesuffix("s"), None)
        if found is None:
            raise TypeError(f"{name} was called without {word}")
        arguments.append(_nested(found, depth))
    if unknown := named.keys() - {"opts", "op", "root", "timeout"}:
        raise TypeError(f"{name} has no argument {min(unknown)}")
    options = kind()
    for value in (*rest, *named.values()):
        if isinstance(value, kind):
            options = value
        elif isinstance(value, timedelta):
            options.timeout = value
        elif isinstance(value, int):
            options.rootRank = value
        elif value is not None:
            options.reduceOp = value
    return (*arguments, options)


def _nested(x: Any, depth: int) -> Any:
    """Tensors in lists of that depth."""
    if depth and isinstance(x, torch.Tensor):
        return _nested([x], depth - 1)
    if depth == 2 and len(x) and isinstance(x[0], torch.Tensor):
        return [x]
    return x
