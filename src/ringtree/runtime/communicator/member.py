"""A rank with an endpoint in a group: what every family of its calls builds on.

A communicator's methods come in families, one class and one file each; all of them are a `Member`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ringtree import late
from ringtree.runtime import arrays
from ringtree.runtime.communicator import calls, lifetime
from ringtree.runtime.communicator.arguments import whole
from ringtree.runtime.communicator.messages.work import Ended, Work
from ringtree.runtime.engines.fast_methods import BLOCK, BLOCKS, STACKED

if TYPE_CHECKING:
    import numpy as np

    from ringtree.ir.schedule import Schedule
    from ringtree.runtime.communicator.calls import Calls
    from ringtree.runtime.communicator.messages.messages import PendingMessages
    from ringtree.runtime.engines.engine import GroupParameters, JoinedGroup
    from ringtree.runtime.engines.protocols import Endpoint

    AlgorithmChoice = str | Schedule | None


class Member:
    """`call`, `call_shaped`, `call_barrier` and `start_call` are the fast path, `_calls` the slow path. `_made` counts
    the groups and symmetric arrays made so far, and so is the key of the next one's bootstrap."""

    rank: int
    size: int
    _engine: str
    _parameters: GroupParameters
    _joined_group: JoinedGroup
    _endpoint: Endpoint
    call: Any
    call_shaped: Any
    call_barrier: Any
    start_call: Any
    _mail: PendingMessages
    _made: int
    _token: np.ndarray[Any, np.dtype[np.int32]]

    @late.Attribute
    def _calls(self) -> Calls:
        """The slow path of this group's calls."""
        lifetime.set_hooks()
        return calls.Calls(self._joined_group, self._engine, self._parameters, self._beside)

    def _used_calls(self) -> Calls | None:
        """The slow path, where a call has taken it."""
        return vars(self).get("_calls")

    def _fail(self, what: str) -> None:
        """Fails the group, and those beside it, for all ranks. `what`: what this rank did, as in "left"."""
        raise NotImplementedError

    def beside(self, what: str, slots: int = 0, engine: str = "") -> Any:
        """See Communicator."""
        raise NotImplementedError

    def _beside(self, what: str, slots: int = 0, engine: str = "") -> Calls:
        """The slow path of a group of the same ranks for a purpose of its own."""
        raise NotImplementedError

    def _code(self, collective: int, algorithm: AlgorithmChoice) -> int:
        """The fast path's code of a collective by a forced algorithm; -1 where it has none."""
        offset = self._calls.offsets.find(algorithm)
        return -1 if offset is None else collective + offset

    def _started(self, collective: int, x: Any, out: Any, op: Any, root: int, shape: int) -> Work | None:
        """As the engine's `call_shaped`, of an asynchronous call, whose Work it returns."""
        if out is None or shape in (BLOCK, BLOCKS):
            axes = arrays.shape_of(x)
            if axes is None or (shape in (BLOCK, BLOCKS) and (not axes or axes[0] % self.size)):
                return None
            if out is None:
                out = arrays.blank(x, self._shaped(axes, shape))
        ticket = self.start_call(collective, x, out, op, root)
        if ticket > 0:
            return self._calls.began(ticket, out, (x, out))
        return Ended(out) if ticket else None

    def _shaped(self, axes: tuple[int, ...], shape: int) -> tuple[int, ...]:
        """The shape of a call's result, by that of its input."""
        if shape == STACKED:
            return (self.size, *axes)
        return (axes[0] // self.size, *axes[1:]) if shape == BLOCK else axes

    def _root(self, root: int) -> int:
        number = whole(root, "root")
        if not 0 <= number < self.size:
            raise ValueError(f"root {number}: expected a rank of this group, 0..{self.size - 1}")
        return number

    def _block(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of one of `size` blocks along the first axis."""
        if not shape or shape[0] % self.size:
            found = f"has {shape[0]} rows" if shape else "is a single number"
            raise ValueError(f"x {found}; expected a first axis that {self.size} ranks divide evenly")
        return (shape[0] // self.size, *shape[1:])
