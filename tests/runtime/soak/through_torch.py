"""Steps of a script through torch.distributed, by the backend "ringtree": collectives, messages, groups."""

from __future__ import annotations

import os
from collections import deque
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.soak.collectives import Arenas, Caller
from tests.runtime.soak.exchanges import between
from tests.runtime.soak.player import MOST_PENDING, Wrong
from tests.runtime.soak.script import MOST_GROUPS, Call, Close, Exchange, Open, Step, Window
from tests.runtime.soak.values import Tables, Values, differing

MOST_CHANNELS = 256
"""Tags of messages that a group counts: so few that they are there when the warm-up ends. With the 16,384 of a program,
a soak of minutes could not tell a bound from none."""


def missing() -> str:
    """Why nothing can go through torch here; "" where it can."""
    try:
        import torch.distributed  # noqa: F401
    except ImportError:
        return "torch is not installed (make test-torch installs it)"
    return ""


def begin(comm: Communicator, folder: Path, timeout_s: float) -> None:
    """The default group, of the ranks of `comm`, which meet by a file."""
    import torch
    import torch.distributed as dist

    import ringtree.torch_backend  # noqa: F401
    from ringtree.torch_backend.flight import recorder

    recorder.MOST_CHANNELS = MOST_CHANNELS
    torch.set_num_threads(1)
    os.environ["TORCH_FR_DUMP_TEMP_FILE"] = str(folder / "dump-")
    store = dist.FileStore(str(folder / "store"), comm.size)
    limit = timedelta(seconds=timeout_s)
    dist.init_process_group("ringtree", store=store, rank=comm.rank, world_size=comm.size, timeout=limit)


def barrier() -> None:
    import torch.distributed as dist

    dist.barrier()


def end() -> None:
    """Destroys all groups. A mismatch that a group's end finds is raised, once the others are destroyed as well: torch
    stops at the first error, and goes on by another call."""
    import torch.distributed as dist

    if dist.is_initialized():
        try:
            dist.destroy_process_group()
        finally:
            end()


def in_torch(script: list[Step]) -> list[Step]:
    """The steps that torch has: no windows, and of collectives no scans and no uneven forms."""
    return [
        step
        for step in script
        if not isinstance(step, Window)
        and not (isinstance(step, Call) and (step.cuts or step.collective in ("scan", "exscan")))
    ]


class TorchPlayer:
    """As player.Player, of the steps that torch has; the others are left out."""

    def __init__(self, comm: Communicator, tables: Tables) -> None:
        import torch.distributed as dist

        self._dist: Any = dist
        self._comm, self._tables = comm, tables
        self._data = Caller(tables, Arenas.__new__(Arenas))._data
        self.groups_of_torch = 0  # that this rank was ever in
        self._groups: list[Any] = []  # opened; None where this rank is in none of them
        self._pending: deque[tuple[int, Step, Any, list[tuple[Any, Values]]]] = deque()
        self.doing: tuple[int, Step | str] = (0, "the beginning")

    @property
    def has_room(self) -> bool:
        return len(self._groups) < MOST_GROUPS

    def open(self) -> list[Communicator]:
        return [self._comm]

    def group_of(self, step: Step) -> Any:
        """Its size, rank and ranks; None where this rank takes no part in it."""
        group = self._group(step)
        if group is None:
            return None
        ranks = self._dist.get_process_group_ranks(group)
        at = SimpleNamespace(size=len(ranks), rank=ranks.index(self._comm.rank), ranks=tuple(ranks), of_torch=group)
        at.close, at.abort = (lambda: self._dist.destroy_process_group(group)), (lambda why: group.abort())
        return at

    def _group(self, step: Step) -> Any:
        if not isinstance(step, Call | Exchange) or step.group == 0 or not self._groups:
            return self._dist.group.WORLD
        return self._groups[step.group % len(self._groups)]

    def step(self, number: int, step: Step) -> None:
        """Makes a step; raises Wrong where its result, or that of a call which it finishes, is another."""
        self.doing = number, step
        if isinstance(step, Open):
            if self.has_room:
                self._groups.append(self._opened(step.how, number))
        elif isinstance(step, Close):
            if step.group <= len(self._groups):
                self.finish(0)
                self._close(self._groups.pop(step.group - 1))
        elif isinstance(step, Call | Exchange) and (at := self.group_of(step)) is not None:
            if isinstance(step, Exchange):
                self._exchange(at, step)
            elif in_torch([step]):
                self.finish(MOST_PENDING - 1)
                self._pending.append((number, step, *self._begin(at, step)))
                if not step.later:
                    self.finish(0)

    def finish(self, most: int) -> None:
        """Waits for calls, the oldest first, until at most `most` are under way."""
        before = self.doing
        while len(self._pending) > most:
            number, step, work, wanted = self._pending.popleft()
            self.doing = number, step
            if work is not None:
                work.wait()
            for got, want in wanted:
                if wrong := differing(_array(got, want.dtype), want):
                    raise Wrong(wrong)
        self.doing = before

    def end_chapter(self, chapter: int) -> None:
        """Finishes all calls and closes the groups that the chapter opened."""
        self.finish(0)
        while self._groups:
            self._close(self._groups.pop())

    def _close(self, group: Any) -> None:
        if group is not None:
            self._dist.destroy_process_group(group)

    def _begin(self, at: Any, call: Call) -> tuple[Any, list[tuple[Any, Values]]]:
        """The call's Work, None where it has ended, and tensors with what they are to be."""
        dist, name, root = self._dist, call.collective, call.root % at.size
        options: dict[str, Any] = {"group": at.of_torch, "async_op": call.later}
        if name == "barrier":
            return dist.barrier(**options), []
        x, wanted, _ = self._data(at, call)
        given = _tensor(np.zeros(0, np.float32) if x is None else x)
        outs = [_tensor(np.zeros_like(want)) for want in wanted]
        expected = list(zip(outs, wanted, strict=True))
        op, whole = getattr(dist.ReduceOp, call.op.upper()), at.ranks[root]
        if name == "all_reduce":
            return dist.all_reduce(given, op, **options), [(given, wanted[0])]
        if name == "reduce":
            return dist.reduce(given, whole, op, **options), [(given, want) for want in wanted]
        if name == "broadcast":
            given = given if at.rank == root else outs[0]
            return dist.broadcast(given, whole, **options), [(given, wanted[0])]
        if name == "all_gather":
            return dist.all_gather(outs, given, **options), expected
        if name == "gather":
            return dist.gather(given, outs if at.rank == root else None, whole, **options), expected
        if name == "scatter":
            blocks = list(given.chunk(at.size)) if at.rank == root and given.numel() else None
            if at.rank == root and blocks is None:
                blocks = [given] * at.size
            return dist.scatter(outs[0], blocks, whole, **options), expected
        if name == "reduce_scatter":  # torch 2.13 has a new name for it
            reduce_scatter = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)
            return reduce_scatter(outs[0], given, op, **options), expected
        out = _tensor(np.zeros(sum(map(len, wanted)), wanted[0].dtype))
        return dist.all_to_all_single(out, given, **options), [(out, np.concatenate(wanted))]

    def _exchange(self, at: Any, step: Exchange) -> None:
        if at.size == 1:
            return
        works, received = [], []
        for message in (between(message, at.size) for message in step.messages):
            data = self._tables.of_rank(message.dtype, message.source)[message.offset :][: message.count]
            if message.source == at.rank:
                works.append(self._dist.isend(_tensor(data), at.ranks[message.target], at.of_torch, message.tag))
            elif message.target == at.rank:
                received.append((_tensor(np.zeros_like(data)), data))
                works.append(self._dist.irecv(received[-1][0], at.ranks[message.source], at.of_torch, message.tag))
        for work in works:
            work.wait()
        for got, want in received:
            if wrong := differing(_array(got, want.dtype), want):
                raise Wrong(wrong)

    def _opened(self, how: str, number: int) -> Any:
        """All ranks make each group, also those that are not in it."""
        n, me = self._comm.size, self._comm.rank
        pair = sorted({number % n, (number + 1) % n})
        parts = {
            "parity": [list(range(n))[k::2] for k in range(2)],
            "halves": [list(range(n))[: -(-n // 2)], list(range(n))[-(-n // 2) :]],
            "without the last": [list(range(n - 1))],
            "pair": [pair],
        }.get(how, [list(range(n))])
        limit = timedelta(seconds=self._comm.timeout_s)  # torch's own is half an hour
        made = [self._dist.new_group(ranks, timeout=limit) for ranks in parts if ranks]
        self.groups_of_torch += sum(me in ranks for ranks in parts)
        return next((group for group, ranks in zip(made, filter(None, parts), strict=True) if me in ranks), None)


def _tensor(x: Values) -> Any:
    """A tensor with a copy of these elements."""
    import torch

    if x.dtype.name == "bfloat16":
        return torch.from_numpy(x.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(x.copy())


def _array(tensor: Any, dtype: np.dtype[Any]) -> Values:
    import torch

    if tensor.dtype == torch.bfloat16:
        found: Values = tensor.view(torch.int16).numpy().view(dtype)
        return found
    return tensor.numpy()  # type: ignore[no-any-return]
