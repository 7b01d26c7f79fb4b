"""The reference engine's fast path: calls that look like earlier ones, by their arrays and by their addresses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ringtree.runtime.engines.fast_methods import BLOCK, BLOCKS, STACKED
from ringtree.runtime.types import Dtype


class KnownCalls:
    """The plans of calls, as ringtree._native.Group states it."""

    ranks: int
    memory: dict[tuple[Any, ...], tuple[int, int | None]]

    def run(self, plan: int, input: int, output: int) -> None:
        raise NotImplementedError

    def start(self, plan: int, input: int, output: int) -> int:
        raise NotImplementedError

    def remember(
        self,
        collective: int,
        format: str,
        dtype: int,
        op: str,
        root: int,
        in_count: int,
        out_count: int,
        plan: int,
        offset: int | None = 0,
    ) -> None:
        for form in (format, dtype):
            self.memory[collective, form, op, root, in_count, out_count] = plan, offset

    def call(self, collective: int, x: Any, out: Any, op: str, root: int) -> bool:
        plan, addresses = self._recall_for(collective, x, out, op, root)
        if plan >= 0:
            self.run(plan, *addresses)
        return plan >= 0

    def call_shaped(self, collective: int, x: Any, out: Any, op: str, root: int, shape: int) -> Any:
        axes = x.shape if type(x) is np.ndarray else None
        if shape in (BLOCK, BLOCKS) and (not axes or axes[0] % self.ranks):
            return None
        if out is None:
            if axes is None:
                return None
            rows = {STACKED: (self.ranks, *axes), BLOCK: (*(n // self.ranks for n in axes[:1]), *axes[1:])}
            out = np.empty(rows.get(shape, axes), x.dtype)
        return out if self.call(collective, x, out, op, root) else None

    def remember_barrier(self, plan: int) -> None:
        pass  # a barrier is a call like any other here

    def call_barrier(self) -> bool:
        return False

    def start_call(self, collective: int, x: Any, out: Any, op: str, root: int) -> int:
        plan, addresses = self._recall_for(collective, x, out, op, root)
        return self.start(plan, *addresses) if plan >= 0 else 0

    def _recall_for(self, collective: int, x: Any, out: Any, op: str, root: int) -> tuple[int, list[int]]:
        """The plan for such a call on buffers, and their addresses; (-1, []) where there is none."""
        if not isinstance(op, str) or not isinstance(root, int) or isinstance(root, bool):
            return -1, []
        if any(of.__name__ == "MaskedArray" for thing in (x, out) for of in type(thing).__mro__):  # and no mask in it
            return -1, []
        try:
            views = [None if thing is None else memoryview(thing) for thing in (x, out)]
        except (TypeError, ValueError, BufferError):
            return -1, []
        known = [v for v in views if v is not None]
        if not known or not all(v.c_contiguous and v.format == known[0].format for v in known):
            return -1, []
        counts = [0 if v is None else v.nbytes // v.itemsize for v in views]
        if views[1] is not None and views[1].readonly:
            return -1, []
        arrays = [None if v is None else np.asarray(v) for v in views]
        if not all(a is None or a.flags.aligned for a in arrays):
            return -1, []
        addresses = [0 if a is None else a.__array_interface__["data"][0] for a in arrays]
        signature = (collective, known[0].format, op, root, *counts)
        nbytes = [0 if v is None else v.nbytes for v in views]
        return self._recall(signature, addresses, nbytes, known[0].itemsize), addresses

    def call_at(
        self,
        collective: int,
        dtype: int,
        op: str,
        root: int,
        x_address: int,
        x_count: int,
        out_address: int,
        out_count: int,
    ) -> bool:
        plan = self._recall_at((collective, dtype, op, root, x_count, out_count), (x_address, out_address))
        if plan >= 0:
            self.run(plan, x_address, out_address)
        return plan >= 0

    def start_at(
        self,
        collective: int,
        dtype: int,
        op: str,
        root: int,
        x_address: int,
        x_count: int,
        out_address: int,
        out_count: int,
    ) -> int:
        plan = self._recall_at((collective, dtype, op, root, x_count, out_count), (x_address, out_address))
        return self.start(plan, x_address, out_address) if plan >= 0 else 0

    def _recall_at(self, signature: tuple[int, int, Any, int, int, int], addresses: Sequence[int]) -> int:
        """As `_recall`, of arrays known by type; -1 also for an operation that has no name."""
        if not isinstance(signature[2], str):
            return -1
        itemsize = Dtype(signature[1]).itemsize
        return self._recall(signature, addresses, [count * itemsize for count in signature[4:]], itemsize)

    def _recall(
        self, signature: tuple[Any, ...], addresses: Sequence[int], nbytes: Sequence[int], itemsize: int
    ) -> int:
        """The plan for such a call with x and out there; -1 where there is none."""
        plan, offset = self.memory.get(signature, (-1, None))
        x, out = addresses
        overlap = x < out + nbytes[1] and out < x + nbytes[0]
        return -1 if overlap and (offset is None or x - out != offset * itemsize) else plan
