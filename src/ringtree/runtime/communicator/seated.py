"""A rank with an endpoint in a group: what every family of its calls builds on.

A communicator's methods come in families, one class and one file each; all of them are `Seated`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ringtree import late
from ringtree.runtime.communicator import calls
from ringtree.runtime.communicator.arguments import whole

if TYPE_CHECKING:
    import numpy as np

    from ringtree.ir.schedule import Schedule
    from ringtree.runtime.communicator.calls import Calls
    from ringtree.runtime.communicator.messages.messages import PendingMessages
    from ringtree.runtime.engines.engine import GroupParameters, JoinedGroup
    from ringtree.runtime.engines.protocols import Endpoint

    AlgorithmChoice = str | Schedule | None


class Member:
    """`_call` is the fast path, `_calls` the slow path. `_made` counts the groups and symmetric arrays made so
    far, and so is the key of the next one's bootstrap."""

    rank: int
    size: int
    _engine: str
    _parameters: GroupParameters
    _joined_group: JoinedGroup
    _endpoint: Endpoint
    _call: Any
    _mail: PendingMessages
    _made: int
    _token: np.ndarray[Any, np.dtype[np.int32]]

    @late.Attribute
    def _calls(self) -> Calls:
        """The slow path of this group's calls."""
        return calls.Calls(self._joined_group, self._engine, self._parameters, self._beside)

    def _used_calls(self) -> Calls | None:
        """The slow path, where a call has taken it."""
        return vars(self).get("_calls")

    def _beside(self, what: str, slots: int = 0) -> Calls:
        """The slow path of a group of the same ranks for a purpose of its own."""
        raise NotImplementedError

    def _code(self, collective: int, algorithm: AlgorithmChoice) -> int:
        """The fast path's code of a collective by a forced algorithm; -1 where it has none."""
        offset = self._calls.offsets.get(algorithm) if isinstance(algorithm, str) else None
        return -1 if offset is None else collective + offset

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
