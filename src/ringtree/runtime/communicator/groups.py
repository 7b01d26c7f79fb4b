"""Smaller groups of a group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from weakref import WeakSet

from ringtree.errors import TimedOut
from ringtree.runtime.communicator.arguments import int64, whole
from ringtree.runtime.communicator.collectives.collectives import Collectives
from ringtree.runtime.communicator.mesh import Mesh
from ringtree.runtime.engines.engine import Terms

if TYPE_CHECKING:
    from ringtree.runtime.communicator.communicator import Communicator
    from ringtree.runtime.tracing.tracing import Recording


class Groups(Collectives):
    """How a communicator makes others, each of which makes others in turn. They live on when this one is closed."""

    _grouped: dict[tuple[int, ...], int]  # how often `group` was called with these ranks
    _offspring: WeakSet[Communicator]
    _recordings: list[Recording]

    def _of(self, terms: Terms) -> Communicator:
        """A communicator by the engine of this one."""
        raise NotImplementedError

    @property
    def place(self) -> str:
        """A text that the members of this group share, and no other group of theirs has."""
        return self._terms.place

    @property
    def ranks(self) -> tuple[int, ...]:
        """The members' ranks in the world, in the order of their ranks here."""
        return tuple(map(int, self._terms.names))

    def split(self, color: int | None, key: int = 0) -> Communicator | None:
        """The communicator of the ranks that said the same `color`, ordered by `key`, then by rank here; None for
        those who said None. All ranks of this group call it."""
        mine = (0, 0, 0) if color is None else (1, int64(color, "color"), int64(key, "key"))
        table = self._agreed("a split", mine).tolist()
        self._made += 1
        if color is None:
            return None
        colors = sorted({c for here, c, _ in table if here})
        members = sorted((k, r) for r, (here, c, k) in enumerate(table) if here and c == mine[1])
        return self._communicator([r for _, r in members], f"{self._made}.{colors.index(mine[1])}", "split")

    def group(
        self,
        ranks: Sequence[int],
        *,
        label: str = "",
        timeout_s: float | None = None,
        look: Callable[[list[int]], None] | None = None,
    ) -> Communicator:
        """The communicator of these ranks of this group, in this order. They call it, each with the same list, and
        nobody else does.

        Its members meet under the count of such groups that they made; those that agreed on a text that no other group
        here has may give that as `label`. `timeout_s` bounds the new group's waits (default: as here). `look` is called
        now and then while others are waited for, with the members that have not come; what it raises ends the wait.
        """
        members = tuple(whole(r, "rank") for r in ranks)
        if wrong := [r for r in members if not 0 <= r < self.size]:
            raise ValueError(f"rank {wrong[0]}: expected ranks of this group, 0..{self.size - 1}")
        if len(set(members)) < len(members):
            raise ValueError(f"a group of ranks {_listed(members)}: expected each of them once")
        if self.rank not in members:
            raise ValueError(f"a group of ranks {_listed(members)} made by rank {self.rank}: only its members make it")
        call = f"group([{_shown(members)}])"
        if label:
            return self._communicator(members, f"of {_listed(members)}, {label}", call, timeout_s, look)
        self._grouped[members] = turn = self._grouped.get(members, 0) + 1
        try:
            return self._communicator(members, f"of {_listed(members)}.{turn}", call, timeout_s, look)
        except BaseException:  # nobody has it, and they may try again
            self._grouped[members] -= 1
            raise

    def duplicate(self) -> Communicator:
        """Another communicator of the same ranks, whose calls do not wait for this one's. All ranks call it."""
        self._agreed("a duplicate")
        self._made += 1
        return self._communicator(range(self.size), str(self._made), "duplicate")

    def mesh(self, **axes: int) -> Mesh:
        """This group as a grid, as in `mesh(dp=2, tp=4)`: the last axis varies fastest, and one length may be -1, for
        whatever is left. All ranks call it; see Mesh."""
        self._agreed("a mesh of " + ", ".join(f"{name}={whole(length, name)}" for name, length in axes.items()))
        self._made += 1
        made = self._made

        def make(ranks: Sequence[int], name: str) -> Communicator:
            return self._communicator(ranks, f"{made}.{name}", f"mesh[{name.rpartition('.')[0]}]")

        return Mesh(axes, self.rank, self.size, make)

    def _communicator(
        self,
        members: Sequence[int],
        label: str,
        call: str,
        timeout_s: float | None = None,
        look: Callable[[list[int]], None] | None = None,
    ) -> Communicator:
        """The communicator of these ranks. `label` is what all of them call it, and nobody else anything in this group;
        `call` is what they are in, for messages."""
        seat = self._seat

        def look_too(absent: list[int]) -> None:
            seat.look(call, list(members), absent)
            if look is not None:
                look(absent)

        terms = Terms(
            f"{self._terms.place}/{label}",
            members.index(self.rank),
            tuple(self._terms.names[r] for r in members),
            self._terms.timeout_s if timeout_s is None else timeout_s,
            self._terms.threads,
            look_too,
            kin=self._seat.kin(list(members)),
            parameters=self._terms.parameters,
            bootstrap=self._terms.bootstrap,
        )
        try:
            return self._made_from_here(self._of(terms))
        except TimeoutError as late:
            raise TimedOut(f"{call}: {late}; expected ranks {_shown(terms.names)} to make it alike") from None

    def _made_from_here(self, made: Communicator) -> Communicator:
        """What records this group's calls records those of groups that are made from it, too."""
        self._offspring.add(made)
        for recording in self._recordings:
            recording.admit(made)
        return made


def _shown(ranks: Sequence[object], most: int = 8) -> str:
    """So many that a message stays a line."""
    return ", ".join([*map(str, ranks[:most]), *["..."] * (len(ranks) > most)])


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks)) or "none"
