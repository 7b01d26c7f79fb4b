"""Groups: ranks in an order, without a connection between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ringtree.mpi.constants import IDENT, PROC_NULL, SIMILAR, UNDEFINED, UNEQUAL
from ringtree.mpi.errors import ERR_ARG, ERR_GROUP, ERR_RANK, Exception
from ringtree.mpi.missing import MpiObject


class Group(MpiObject):
    """`members` are ranks of the world, in the group's order (None: GROUP_NULL); `own` is this process's rank there.
    Exception of ERR_RANK: if a rank is not one of the group; of ERR_GROUP: whatever GROUP_NULL is asked."""

    def __init__(self, members: Sequence[int] | Group | None = None, own: int = UNDEFINED) -> None:
        self._members: tuple[int, ...] | None
        self._own: int
        if isinstance(members, Group):
            self._members, self._own = members._members, members._own
        else:
            self._members, self._own = None if members is None else tuple(members), own

    @property
    def members(self) -> tuple[int, ...]:
        """Ranks of the world, in the group's order."""
        if self._members is None:
            raise Exception(ERR_GROUP, "GROUP_NULL has no ranks, also not none; expected a group")
        return self._members

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self.members)

    @property
    def rank(self) -> int:
        """This process's rank here; UNDEFINED where it is no member."""
        return self.members.index(self._own) if self._own in self.members else UNDEFINED

    def Get_size(self) -> int:
        """Number of ranks."""
        return self.size

    def Get_rank(self) -> int:
        """This process's rank in the group; UNDEFINED where it is no member."""
        return self.rank

    def Incl(self, ranks: Sequence[int]) -> Group:
        """The group of these ranks, in this order."""
        return self._of([self.members[r] for r in self._ranks(ranks, "Incl")])

    def Excl(self, ranks: Sequence[int]) -> Group:
        """The group without these ranks, in the same order."""
        without = set(self._ranks(ranks, "Excl"))
        return self._of([m for r, m in enumerate(self.members) if r not in without])

    def Range_incl(self, ranks: Sequence[tuple[int, int, int]]) -> Group:
        """The group of the ranks of each (first, last, step), `last` included."""
        return self.Incl([r for first, last, step in ranks for r in _inclusive(first, last, step)])

    def Range_excl(self, ranks: Sequence[tuple[int, int, int]]) -> Group:
        """The group without the ranks of each (first, last, step), `last` included."""
        return self.Excl([r for first, last, step in ranks for r in _inclusive(first, last, step)])

    @staticmethod
    def Union(a: Group, b: Group) -> Group:
        """The members of `a`, then the members that only `b` has."""
        return a._of([*a.members, *(m for m in b.members if m not in a.members)], b)

    @staticmethod
    def Intersection(a: Group, b: Group) -> Group:
        """The members of both groups, in the order of `a`."""
        return a._of([m for m in a.members if m in b.members], b)

    @staticmethod
    def Difference(a: Group, b: Group) -> Group:
        """The members of `a` that `b` lacks, in the order of `a`."""
        return a._of([m for m in a.members if m not in b.members], b)

    def Translate_ranks(self, ranks: Sequence[int] | None = None, group: Group | None = None) -> list[int]:
        """The ranks in `group` (default: the world) of `ranks` (default: all) of this group; UNDEFINED for those not in
        it."""
        of = {PROC_NULL: PROC_NULL}
        of.update((m, m if group is None else UNDEFINED) for m in self.members)
        if group is not None:
            of.update((m, r) for r, m in enumerate(group.members))
        asked = range(self.size) if ranks is None else [*ranks]
        self._ranks([r for r in asked if r != PROC_NULL], "Translate_ranks")
        return [of[r if r == PROC_NULL else self.members[r]] for r in asked]

    Intersect = Intersection

    def Compare(self, group: Group) -> int:
        """IDENT, SIMILAR (same members, other order) or UNEQUAL."""
        if self.members == group.members:
            return IDENT
        return SIMILAR if sorted(self.members) == sorted(group.members) else UNEQUAL

    def Dup(self) -> Group:
        """A group of the same members."""
        return self._of(self.members)

    def Free(self) -> None:
        """Makes this GROUP_NULL; GROUP_EMPTY stays."""
        if self.members or self is not GROUP_EMPTY:
            self._members = None

    def free(self) -> None:
        """Free of what is not GROUP_NULL."""
        if self:
            self.Free()

    def _of(self, members: Sequence[int], other: Group | None = None) -> Group:
        """A group of these members; GROUP_EMPTY does not know this process, but `other` may."""
        own = other._own if other is not None and self._own == UNDEFINED else self._own
        return Group(members, own)

    def _ranks(self, ranks: Sequence[int], call: str) -> list[int]:
        listed, size = [*ranks], self.size
        for rank in listed:
            if not 0 <= rank < size:
                expected = f"0..{size - 1}" if size else "none, as the group is empty"
                raise Exception(ERR_RANK, f"{call}: no rank {rank} in this group: expected {expected}")
        return listed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Group) and self._members == other._members

    def __reduce__(self) -> str | tuple[Any, ...]:
        for name, one in (("GROUP_NULL", GROUP_NULL), ("GROUP_EMPTY", GROUP_EMPTY)):
            if self == one:
                return name if self is one else (Group, (one,))
        raise ValueError("a group cannot be pickled: it is this process's own")

    def __hash__(self) -> int:
        return hash(self._members)

    def __bool__(self) -> bool:
        return self._members is not None


def _inclusive(first: int, last: int, step: int) -> range:
    if not step:
        raise Exception(ERR_ARG, f"a range of ranks from {first} to {last} by steps of 0: expected another step")
    return range(first, last + (1 if step > 0 else -1), step)


GROUP_NULL = Group()
GROUP_EMPTY = Group(())
