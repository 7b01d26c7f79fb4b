"""A method that the core makes is the function it was made from, for all who look at it or call it in another way."""

from __future__ import annotations

import gc
import inspect
import pydoc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ringtree.runtime.communicator.calls.codes import CODE
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import native_module
from ringtree.runtime.engines.fast_methods import fast

METHODS = (
    "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce", "gather", "scatter", "scan",
    "barrier",
)  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_a_method_shows_its_function(name: str) -> None:
    method = getattr(Communicator, name)
    function = inspect.unwrap(method)
    assert type(method).__name__ == "FastMethod" and inspect.isfunction(function) and inspect.isroutine(method)
    assert inspect.signature(method) == inspect.signature(function)
    for shown in ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__", "__kwdefaults__"):
        assert getattr(method, shown) == getattr(function, shown)
    assert function.__doc__.splitlines()[0] in pydoc.render_doc(method) and repr(method) == repr(function)
    assert not hasattr(method, "no_such_attribute")


class Recorded:
    """A communicator of rank 1, which keeps what the fast path is asked; it knows what `known` says."""

    rank = 1

    def __init__(self, known: bool) -> None:
        self.known, self.asked = known, list[tuple[Any, ...]]()

    def call(self, *asked: Any) -> bool:
        self.asked.append(asked)
        return self.known

    def call_shaped(self, *asked: Any) -> Any:
        self.asked.append(asked)
        return "made" if self.known else None

    def call_barrier(self) -> bool:
        self.asked.append(())
        return self.known

    @fast(CODE["all_reduce"], shape=2)
    def alike(self, x: Any, op: Any = "sum", *, out: Any = None, **more: Any) -> Any:
        return "slow", x, op, out, more

    @fast(CODE["reduce"], "to_root")
    def to_root(self, x: Any, op: Any = "sum", root: int = 0, *, out: Any = None, **more: Any) -> Any:
        return "slow", x, op, root, out, more

    @fast(CODE["scatter"], "from_root", 2)
    def from_root(self, x: Any, root: int = 0, out: Any = None, **more: Any) -> Any:
        return "slow", x, root, out, more

    @fast(CODE["broadcast"], "filled")
    def filled(self, x: Any, root: int = 0, **more: Any) -> Any:
        return "slow", x, root, more

    @fast(CODE["barrier"], "none")
    def none(self, **more: Any) -> Any:
        return "slow", more


Act = Callable[[Recorded], Any]

FAST: dict[str, tuple[Act, tuple[Any, ...], Any]] = {
    "x alone": (lambda c: c.alike("x"), (0, "x", None, "sum", -1, 2), "made"),
    "all by position": (lambda c: c.alike("x", "max"), (0, "x", None, "max", -1, 2), "made"),
    "all by name": (lambda c: c.alike(out="out", op="max", x="x"), (0, "x", "out", "max", -1, 2), "made"),
    "to this root": (lambda c: c.to_root("x", "max", 1, out="out"), (4, "x", "out", "max", 1, 0), "made"),
    "to another": (lambda c: c.to_root("x", out="out"), (4, "x", None, "sum", 0), None),
    "from this root": (lambda c: c.from_root("x", 1), (6, "x", None, "", 1, 2), "made"),
    "from another": (lambda c: c.from_root("x", 2, "out"), (6, None, "out", "", 2), "out"),
    "in place": (lambda c: c.filled("x", root=1), (3, "x", "x", "", 1), "x"),
    "no arrays": (lambda c: c.none(), (), None),
    "through its class": (lambda c: Recorded.alike(c, "x"), (0, "x", None, "sum", -1, 2), "made"),
    "through super": (lambda c: super(Later, c).alike("x"), (0, "x", None, "sum", -1, 2), "made"),
}
SLOW: dict[str, tuple[Act, Any]] = {
    "an option": (lambda c: c.alike("x", more=1), ("slow", "x", "sum", None, {"more": 1})),
    "an option of none": (lambda c: c.none(async_op=True), ("slow", {"async_op": True})),
    "a root of another type": (lambda c: c.filled("x", np.int64(1)), ("slow", "x", np.int64(1), {})),
    "a truth value as root": (lambda c: c.filled("x", True), ("slow", "x", True, {})),
    "a root beyond 64 bits": (lambda c: c.to_root("x", root=1 << 70), ("slow", "x", "sum", 1 << 70, None, {})),
    "no out from another": (lambda c: c.from_root("x", 2), ("slow", "x", 2, None, {})),
    "an operation of none": (lambda c: c.filled("x", op="max"), ("slow", "x", 0, {"op": "max"})),
    "a root of none": (lambda c: c.alike("x", root=1), ("slow", "x", "sum", None, {"root": 1})),
}


class Later(Recorded):
    def alike(self, x: Any, *given: Any, **named: Any) -> Any:
        return "overridden"


@pytest.mark.parametrize("name", FAST)
def test_a_known_call_asks_the_fast_path_alone(name: str) -> None:
    act, asked, made = FAST[name]
    c = Later(True) if name == "through super" else Recorded(True)
    assert act(c) == made and c.asked == [asked]
    c.known = False
    slow = act(c)
    assert slow[0] == "slow" and c.asked == [asked] * 2


@pytest.mark.parametrize("name", SLOW)
def test_all_else_is_the_functions(name: str) -> None:
    act, expected = SLOW[name]
    c = Recorded(True)
    # a root beyond 64 bits is no rank, so that the fast path is asked, and knows no such call
    c.known = name != "a root beyond 64 bits"
    assert act(c) == expected


def test_a_class_made_from_it_may_override_it() -> None:
    assert Later(True).alike("x") == "overridden" and Later(True).filled("x") == "x"


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda c: c.alike(), "missing 1 required positional argument: 'x'"),
        (lambda c: c.filled(1, 2, 3), "takes from 2 to 3 positional arguments but 4 were given"),
        (lambda c: c.filled(1, x=2), "got multiple values for argument 'x'"),
        (lambda c: Recorded.filled(), "missing 2 required positional arguments"),
    ],
    ids=["none", "too many", "twice", "without an instance"],
)
def test_wrong_arguments_are_refused_as_the_function_refuses_them(act: Act, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        act(Recorded(True))


def test_an_error_of_the_fast_path_is_the_calls() -> None:
    c = Recorded(True)
    c.call_shaped = c.call_barrier = None  # type: ignore[assignment, method-assign]
    for act in (lambda: c.alike("x"), c.none):
        with pytest.raises(TypeError, match="'NoneType' object is not callable"):
            act()


@pytest.mark.parametrize(
    ("function", "roles", "message"),
    [
        (lambda self, x: x, "nobody", "unknown roles"),
        (lambda self, y: y, "alike", "a parameter that the fast path does not know"),
        (lambda: None, "alike", "another number of parameters"),
    ],
    ids=["roles", "parameter", "none"],
)
def test_functions_of_other_parameters_are_refused(function: Any, roles: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        native_module().FastMethod(function, 0, roles, 0)


def test_a_method_goes_with_its_class() -> None:
    def dropped() -> weakref.ref[Any]:
        class Once:
            @fast(CODE["all_reduce"])
            def act(self, x: Any) -> Any:
                return Once, x

        return weakref.ref(Once)

    once = dropped()
    gc.collect()
    assert once() is None
