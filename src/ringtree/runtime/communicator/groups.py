"""Smaller groups of a group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from weakref import WeakSet

from ringtree.errors import TimedOut
from ringtree.runtime.bootstrap.environment import patience
from ringtree.runtime.communicator.arguments import int64, listed, whole
from ringtree.runtime.communicator.collectives.collectives import Collectives
from ringtree.runtime.communicator.composite import CompositeCall
from ringtree.runtime.communicator.lifetime import Gone
from ringtree.runtime.communicator.mesh import Mesh
from ringtree.runtime.engines.engine import GroupParameters

if TYPE_CHECKING:
    from ringtree.runtime.communicator.communicator import Communicator
    from ringtree.runtime.engines.protocols import Endpoint
    from ringtree.runtime.tracing.tracing import Recording


class Groups(Collectives):
    """Calls by which a communicator makes others, which live on when this one is closed."""

    _grouped: dict[tuple[int, ...], int]  # how often `group` was called with these ranks
    _offspring: WeakSet[Communicator]
    _recordings: list[Recording]

    def _of(self, parameters: GroupParameters) -> Communicator:
        """A communicator by the engine of this one."""
        raise NotImplementedError

    @property
    def key(self) -> str:
        """A text that the members of this group share, and no other group of theirs has."""
        return self._parameters.key

    @property
    def ranks(self) -> tuple[int, ...]:
        """The members' ranks in the world, in the order of their ranks here."""
        return tuple(map(int, self._parameters.names))

    def split(self, color: int | None, key: int = 0) -> Communicator | None:
        """The communicator of the ranks that gave the same `color`, ordered by `key`, then by rank here; None for
        ranks that gave None. Both are whole numbers of 64 bits (else TypeError, ValueError). All ranks of this group
        call it."""
        mine = (0, 0, 0) if color is None else (1, int64(color, "color"), int64(key, "key"))
        with CompositeCall(self._fail, "split", alike=(Exception,)):
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
        check_liveness: Callable[[list[int]], None] | None = None,
    ) -> Communicator:
        """The communicator of these ranks of this group, in this order. Only the listed ranks call it, each with the
        same list; other ranks do not.

        The bootstrap's key is the number of groups that the members made of these ranks; members may give a `label`
        instead, a text that no other group here has. `timeout_s` bounds the waits of the new group (default:
        those of this group's). `check_liveness` is called now and then while members are waited for, with the ranks
        that have not come; an exception that it raises ends the wait.
        """
        members = tuple(whole(r, "rank") for r in listed(ranks, "ranks", "ranks"))
        if timeout_s is not None:
            timeout_s = patience(timeout_s)
        if wrong := [r for r in members if not 0 <= r < self.size]:
            raise ValueError(f"rank {wrong[0]}: expected ranks of this group, 0..{self.size - 1}")
        if len(set(members)) < len(members):
            raise ValueError(f"a group of ranks {_listed(members)}: expected each of them once")
        if self.rank not in members:
            raise ValueError(f"a group of ranks {_listed(members)} made by rank {self.rank}: only its members make it")
        call = f"group([{_shown(members)}])"
        if label:
            return self._communicator(members, f"of {_listed(members)}, {label}", call, timeout_s, check_liveness)
        self._grouped[members] = turn = self._grouped.get(members, 0) + 1
        label, came = f"of {_listed(members)}.{turn}", list[bool]()
        try:
            return self._communicator(members, label, call, timeout_s, check_liveness, lambda: came.append(True))
        except BaseException:
            if not came:  # no rank has the group; once they have met, some may, and all count it
                self._grouped[members] -= 1
            raise

    def duplicate(self) -> Communicator:
        """Another communicator of the same ranks, whose calls do not wait for this one's. All ranks call it."""
        with CompositeCall(self._fail, "duplicate", alike=(Exception,)):
            self._agreed("a duplicate")
            self._made += 1
            return self._communicator(range(self.size), str(self._made), "duplicate")

    def mesh(self, /, **axes: int) -> Mesh:
        """This group as a grid, as in `mesh(dp=2, tp=4)`: the last axis varies fastest, and one length may be -1: the
        remaining factor. All ranks call it; see Mesh. ValueError: if the lengths' product is not `size`."""
        request = "a mesh of " + ", ".join(f"{name}={whole(length, name)}" for name, length in axes.items())
        with CompositeCall(self._fail, "mesh", alike=(Exception,)):
            self._agreed(request)
            self._made += 1
            made = self._made

            def make(ranks: Sequence[int], name: str) -> Communicator:
                call = f"mesh[{name.rpartition('.')[0]}]"
                if isinstance(self._endpoint, Gone):
                    raise RuntimeError(
                        f"{call}: {self._endpoint.message}; expected the mesh's group open at a product's first use: "
                        "ask for it before you close the group"
                    )
                return self._communicator(ranks, f"{made}.{name}", call)

            return Mesh(axes, self.rank, self.size, make)

    def _communicator(
        self,
        members: Sequence[int],
        label: str,
        call: str,
        timeout_s: float | None = None,
        check_liveness: Callable[[list[int]], None] | None = None,
        met: Callable[[], None] | None = None,
    ) -> Communicator:
        """The communicator of these ranks. `label`: a text that is equal on all of them and unique in this group;
        `call`: the method's name, for error texts; `met`: as BootstrapGroup's."""
        endpoint = self._endpoint
        limit_s = self._parameters.timeout_s if timeout_s is None else timeout_s
        wait = _WaitForMembers(endpoint, call, members, limit_s)

        def check_members(absent: list[int]) -> None:
            endpoint.check_liveness(call, list(members), absent)
            if check_liveness is not None:
                check_liveness(absent)
            wait.note(absent)

        parameters = GroupParameters(
            f"{self._parameters.key}/{label}",
            members.index(self.rank),
            tuple(self._parameters.names[r] for r in members),
            limit_s,
            self._parameters.threads,
            check_members,
            inherited=self._endpoint.inherited(list(members)),
            cost=self._parameters.cost,
            network=self._parameters.network,
            bootstrap=self._parameters.bootstrap,
            reductions=self._parameters.reductions,
            check=self._parameters.check,
            takes_turns=self._parameters.takes_turns,
            met=met,
        )
        with wait:
            try:
                return self._made_from_here(self._of(parameters))
            except TimeoutError as late:
                text = f"{call}: {late}; expected ranks {_shown(parameters.names)} to make it alike"
                raise TimedOut(endpoint.give_up(text, list(members))) from None

    def _made_from_here(self, made: Communicator) -> Communicator:
        """Adds a group made from this one, also to the recordings of this one's calls."""
        self._offspring.add(made)
        for recording in self._recordings:
            recording.admit(made)
        return made

    def _made_from(self) -> list[Communicator]:
        """The open groups made from this one, and those made from them, also from one that is closed by now."""
        found = list(self._offspring)
        for made in found:
            found += made._offspring
        return [made for made in found if not isinstance(made._endpoint, Gone)]


class _WaitForMembers:
    """The wait until the members of a new group have come, written down where those find it who wait for this rank."""

    def __init__(self, endpoint: Endpoint, call: str, members: Sequence[int], timeout_s: float) -> None:
        self._endpoint, self._call, self._members, self._timeout_s = endpoint, call, members, timeout_s
        self._place = self._missed = -1

    def note(self, absent: Sequence[int]) -> None:
        """Notes who has not come yet, by their positions among the members; the first one counts."""
        if absent and absent[0] != self._missed:
            self._endpoint.end_wait(self._place, False)
            self._missed = absent[0]
            self._place = self._endpoint.begin_wait(self._call, self._members[self._missed], self._timeout_s)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._endpoint.end_wait(self._place, kind is TimedOut)


def _shown(ranks: Sequence[object], most: int = 8) -> str:
    """At most `most` ranks, so that a message stays a line."""
    return ", ".join([*map(str, ranks[:most]), *["..."] * (len(ranks) > most)])


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks)) or "none"
