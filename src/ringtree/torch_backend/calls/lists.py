"""The collectives in which a rank has a list of tensors, one for each rank.

The tensors of a list may be of different sizes; all ranks know them all, so that nothing has to be asked first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.distributed.distributed_c10d import AllgatherOptions, GatherOptions, ReduceScatterOptions, ScatterOptions

from ringtree.runtime.communicator.calls.codes import CODE
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.torch_backend.calls.forms import taking
from ringtree.torch_backend.calls.launching import Launching
from ringtree.torch_backend.tensors import Tensors, alike, filled, filled_jointly, joined, one, operation, plain
from ringtree.torch_backend.works.work import GroupWork

_ALL_GATHER, _REDUCE_SCATTER = CODE["all_gather"], CODE["reduce_scatter"]


class Lists(Launching):
    """The backend's collectives of lists. Outer lists have one entry, or none where a rank that is not the root has
    nothing to give or to get."""

    @taking(AllgatherOptions, output_tensors=2, input_tensors=1)
    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> GroupWork | None:
        """Fills outputs[0][r] with rank r's input."""
        row, x = self._row(outputs, "outputs"), plain(one(inputs))
        out, after = filled_jointly(row)
        counts = [o.numel() for o in row]
        if len(set(counts)) == 1:
            prepared = (lambda c, a: c.all_gather(x, out=out, async_op=a)), after
            return self.launch_again(
                "all_gather", opts, inputs, row, _ALL_GATHER, x, out, "", -1, lambda *_: prepared, after
            )

        def call(c: Communicator, async_op: bool) -> Any:
            return c.all_gather_v(x.detach().reshape(-1), counts, out=out, async_op=async_op)

        return self.launch("all_gather", opts, inputs, row, call, after)

    @taking(ReduceScatterOptions, output_tensors=1, input_tensors=2)
    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> GroupWork | None:
        """Fills outputs[0] with this rank's entry of the lists, each reduced over all ranks."""
        row, op = self._row(inputs, "inputs"), operation(opts.reduceOp)
        out, after = filled(one(outputs))
        x, counts = joined(row), [i.numel() for i in row]
        if len(set(counts)) == 1:
            prepared = (lambda c, a: c.reduce_scatter(x, op, out=out, async_op=a)), after
            return self.launch_again(
                "reduce_scatter", opts, row, outputs, _REDUCE_SCATTER, x, out, op, -1, lambda *_: prepared, after
            )

        def call(c: Communicator, async_op: bool) -> Any:
            return c.reduce_scatter_v(x, counts, op, out=out, async_op=async_op)

        return self.launch("reduce_scatter", opts, row, outputs, call, after)

    @taking(GatherOptions, output_tensors=2, input_tensors=1)
    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> GroupWork | None:
        """Fills outputs[0][r] at the root with rank r's input."""
        root, x = self._root(opts), plain(one(inputs))
        if self._rank != root:
            return self.launch("gather", opts, inputs, (), lambda c, a: c.gather(x, root, async_op=a))
        row = alike(self._row(outputs, "outputs"), one(inputs), "outputs")
        out, after = filled_jointly(row)
        return self.launch("gather", opts, inputs, row, lambda c, a: c.gather(x, root, out=out, async_op=a), after)

    @taking(ScatterOptions, output_tensors=1, input_tensors=2)
    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> GroupWork | None:
        """Fills outputs[0] with this rank's entry of the root's list."""
        root = self._root(opts)
        out, after = filled(one(outputs))
        row = alike(self._row(inputs, "inputs"), one(outputs), "inputs") if self._rank == root else ()
        x = joined(row) if row else None
        return self.launch("scatter", opts, row, outputs, lambda c, a: c.scatter(x, root, out, async_op=a), after)

    def _row(self, lists: Sequence[Tensors], what: str) -> Tensors:
        """The only list of them, which has a tensor for each rank."""
        if len(lists) != 1 or len(lists[0]) != self._size:
            got = f"a list of {len(lists[0])} tensors" if len(lists) == 1 else f"{len(lists)} lists"
            raise ValueError(f"{what} are {got}; expected a list of {self._size} tensors, one for each rank")
        return lists[0]
