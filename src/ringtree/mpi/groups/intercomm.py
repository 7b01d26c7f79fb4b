"""Intercommunicators: two groups, of which each rank sends to the other's ranks."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from ringtree.mpi.collectives.collectives import CollectiveMethods
from ringtree.mpi.collectives.objects import ObjectMethods
from ringtree.mpi.collectives.uneven import UnevenForms
from ringtree.mpi.comm import COMM_NULL, COMM_WORLD, Comm, Intracomm, check_color, check_split_type
from ringtree.mpi.constants import UNDEFINED
from ringtree.mpi.errors import translating
from ringtree.mpi.groups.across import Across
from ringtree.mpi.groups.between_groups import CollectivesBetweenGroups
from ringtree.mpi.groups.group import Group
from ringtree.mpi.info import Info
from ringtree.mpi.leaving import Groups
from ringtree.mpi.missing import missing_between_groups
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.communicator.composite import CompositeCall


@translating
class Intercomm(CollectivesBetweenGroups, Comm):  # type: ignore[misc]  # collectives without options
    """Two groups. Ranks, as those of messages and roots, are the other group's; `rank` and `size` are this one's. It
    consists of three communicators: one of both groups for messages, one of both and one of this group for
    collectives."""

    is_inter, is_intra = True, False
    _here: tuple[int, ...]
    _there: tuple[int, ...]

    def __init__(self, comm: Comm | None = None) -> None:
        super().__init__(comm)
        if isinstance(comm, Intercomm):
            self._take(comm._here, comm._there, comm._all, comm._ours)

    @classmethod
    def _over(cls, parent: Communicator, here: Sequence[int], there: Sequence[int], label: str = "") -> Intercomm:
        """The Intercomm of two lists of ranks of the world, all of `parent`; each group passes its own first."""
        first, second = sorted((tuple(here), tuple(there)), key=min)
        places = [parent.ranks.index(rank) for rank in (*first, *second)]
        return cls._of(parent.group(places, label=label), tuple(here), tuple(there))

    @classmethod
    def _of(cls, joint: Communicator, here: tuple[int, ...], there: tuple[int, ...]) -> Intercomm:
        """The Intercomm over a communicator of both, in which one group comes first."""
        begins = joint.ranks.index(there[0])
        made = cls()
        made._comm = Across(joint, begins, len(there))  # type: ignore[assignment]
        with CompositeCall(joint._fail, "the making of an Intercomm"):
            ours = joint.split(int(begins == 0), joint.rank)
            made._take(here, there, Intracomm(joint.duplicate()), Intracomm(ours))
        return made

    def _take(self, here: tuple[int, ...], there: tuple[int, ...], everyone: Intracomm, ours: Intracomm) -> None:
        self._here, self._there, self._all, self._ours = here, there, everyone, ours
        self._begins = everyone._comm.ranks.index(there[0])

    @classmethod
    def Create_from_groups(
        cls,
        local_group: Group,
        local_leader: int,
        remote_group: Group,
        remote_leader: int,
        stringtag: str = "org.mpi4py",
        info: Info | None = None,
    ) -> Intercomm:
        """The Intercomm of two groups of the world; both call it."""
        return cls._over(COMM_WORLD._comm, local_group.members, remote_group.members)

    @property
    def size(self) -> int:
        """Number of ranks of this group."""
        return len(self._here)

    @property
    def rank(self) -> int:
        """This rank in this group."""
        return self._ours.rank

    @property
    def remote_size(self) -> int:
        """Number of ranks of the other group."""
        return len(self._there)

    @property
    def remote_group(self) -> Group:
        """The other group's ranks."""
        return self.Get_remote_group()

    def Get_size(self) -> int:
        """Number of ranks of this group."""
        return self.size

    def Get_rank(self) -> int:
        """This rank in this group."""
        return self.rank

    def Get_remote_size(self) -> int:
        """Number of ranks of the other group."""
        return self.remote_size

    def Get_group(self) -> Group:
        """This group."""
        return Group(self._here, self._here[self.rank])

    def Get_remote_group(self) -> Group:
        """The other group."""
        return Group(self._there, self._here[self.rank])

    def Merge(self, high: bool = False) -> Intracomm:
        """The Intracomm of both groups; the one that passes a true `high` comes last."""
        return Intracomm(self._all._comm.split(0, int(bool(high))))

    def Dup(self, info: Info | None = None) -> Intercomm:
        """A new Intercomm of the same groups; all ranks call it together."""
        made = self._of(self._all._comm.duplicate(), self._here, self._there)
        made.Set_info(info or self.info)
        return made

    Clone = Dup

    def Split(self, color: int = 0, key: int = 0) -> Comm:
        """The Intercomm of the ranks of both groups that pass the same `color`, each ordered by `key`; COMM_NULL where
        one group has none, or for UNDEFINED."""
        check_color(color)
        with CompositeCall(self._all._comm._fail, "Split"):
            alike = sorted((k, place) for place, (c, k) in enumerate(self._all.allgather((color, key))) if c == color)
            places = {side: [place for _, place in alike if self._beyond(place) == side] for side in (False, True)}
            if color == UNDEFINED or not all(places.values()):
                self._all._comm.split(None)
                return COMM_NULL
            ranks = self._all._comm.ranks
            here, there = ([ranks[p] for p in places[side]] for side in (False, True))
            order = [*here, *there] if min(here) < min(there) else [*there, *here]
            joint = self._all._comm.split(color, order.index(self._here[self.rank]))
        assert joint is not None
        return self._of(joint, tuple(here), tuple(there))

    def _beyond(self, place: int) -> bool:
        """Whether a rank of both is one of the other group."""
        return self._begins <= place < self._begins + self.remote_size

    def Split_type(self, split_type: int, key: int = 0, info: object = None) -> Comm:
        """The Intercomm of the ranks of this rank's host, for COMM_TYPE_SHARED."""
        check_split_type(split_type)
        hosts = self._all._comm.hosts
        return self.Split(UNDEFINED if split_type == UNDEFINED else hosts[self._all.rank], key)

    def _groups(self) -> Groups:
        joint = super()._groups()[0]
        return (self._all._comm, self._ours._comm, joint._joint)  # type: ignore[attr-defined]


def between(comm: Intracomm, leader: int, peer: Comm, remote_leader: int, tag: int) -> Intercomm:
    """Intracomm.Create_intercomm. The communicator of both is made in `peer` where all ranks pass the same one, else in
    COMM_WORLD."""
    with CompositeCall(comm._comm._fail, "Create_intercomm"):
        keys = set(comm.allgather(peer._comm.key if isinstance(peer, Intracomm) and peer else None))
        common = keys.pop() if len(keys) == 1 else None
        known: Any = None
        if comm.rank == leader:
            mine = comm._comm.ranks, common, uuid.uuid4().hex
            known = peer.sendrecv(mine, remote_leader, tag, None, remote_leader, tag), mine[2]
        (there, its, label), mark = comm.bcast(known, leader)
    parent = peer if common is not None and common == its else COMM_WORLD
    return Intercomm._over(parent._comm, comm._comm.ranks, there, f"groups {min(label, mark)}")


def _refused(name: str) -> Any:
    def refuse(self: Intercomm, *_: Any, **__: Any) -> None:
        raise missing_between_groups(name)

    refuse.__doc__ = "Raises NotImplementedError: built for one group only."
    return refuse


for _family in (CollectiveMethods, UnevenForms, ObjectMethods):
    for _name in vars(_family):
        if not _name.startswith("_") and _name not in vars(CollectivesBetweenGroups):
            setattr(Intercomm, _name, _refused(_name))
