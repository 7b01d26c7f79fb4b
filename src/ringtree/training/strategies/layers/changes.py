"""The values of a graph's nodes, without computing them, and the memories that each node changes in place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

UPDATED = ("running_mean", "running_var")
"""Arguments that a batch norm updates while it trains, which its schema does not say."""


class Values(fx.Interpreter):
    """Notes what each node would make in its meta["made"], and in meta["changed"] the memories that it changes in
    place, by their numbers: itself or through a view, those of the module's tensors too."""

    def run(self, *examples: Any) -> Any:
        """Makes stand-ins for inputs like the examples, and returns the outputs'."""
        with FakeTensorMode(allow_non_fake_inputs=True) as self._mode:
            return super().run(*map(self._mode.from_tensor, examples))

    def run_node(self, n: fx.Node) -> Any:
        """Notes its value and its changes."""
        with _Writes() as writes:
            n.meta["made"] = super().run_node(n)
        n.meta["changed"] = list(writes.memories)
        return n.meta["made"]

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """One stand-in for each tensor of the module, so that a change through one node is seen in another's."""
        found = super().get_attr(target, args, kwargs)
        return self._mode.from_tensor(found) if isinstance(found, Tensor) else found


class _Writes(TorchDispatchMode):
    """Collects the memories that the functions called meanwhile write to, as their schemas say."""

    def __init__(self) -> None:
        super().__init__()
        self.memories = dict[int, None]()  # in the order of the writes

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = dict(zip((a.name for a in func._schema.arguments), args, strict=False)) | (kwargs or {})
        trains = given.get("training", given.get("train", False))
        for argument in func._schema.arguments:
            writes = argument.alias_info is not None and argument.alias_info.is_write
            if writes or (trains and argument.name in UPDATED):
                self.memories |= dict.fromkeys(map(memory, _tensors(given.get(argument.name))))
        return func(*args, **(kwargs or {}))


def _tensors(given: Any) -> Iterator[Tensor]:
    if isinstance(given, Tensor):
        yield given
    elif isinstance(given, (tuple, list)):
        for each in given:
            yield from _tensors(each)


def memory(x: Tensor) -> int:
    """The number of a tensor's memory, which all its views have."""
    number: int = x.untyped_storage()._cdata
    return number
