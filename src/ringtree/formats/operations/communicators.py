"""The collectives of an execution trace: which nodes of which ranks are one call.

A communicator's collectives are matched by their order: the k-th of each of its ranks are one call. That without a
name, or named 0, has all ranks, as in ASTRA-sim.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ringtree.files.file_bytes import file_bytes
from ringtree.files.json_values import MOST_BYTES, json_value
from ringtree.formats.imported import FormatError
from ringtree.ir.operations import CollectiveCall

COLLECTIVES = {
    0: "all_reduce",
    1: "reduce",
    2: "all_gather",
    3: "gather",
    4: "scatter",
    5: "broadcast",
    6: "all_to_all",
    7: "reduce_scatter",
    8: "reduce_scatter",
    9: "barrier",
}
"""CollectiveCommType of the schema, and ours."""
ROOTED = ("reduce", "gather", "scatter", "broadcast")
"""Collectives with a root, which the schema does not name: a group's first rank has it."""
EVERYONE = ("", "0")
NO_COMMUNICATORS: Mapping[str, tuple[int, ...]] = MappingProxyType({})
EXPECTED = 'communicators, as ASTRA-sim\'s {"1": [0, 1, 2, 3]}'


class Communicators:
    """The communicators of `ranks` ranks by name, and the calls of each: by rank, (row, type, size)."""

    def __init__(self, ranks: int, named: dict[str, tuple[int, ...]]) -> None:
        self.ranks, self.named = ranks, named
        self.everyone = tuple(range(ranks))
        self.calls: dict[str, dict[int, list[tuple[int, int, int]]]] = {}
        for name, members in named.items():
            self._check(name, members)

    def define(self, text: str) -> None:
        """Defines the communicators that a trace of PyTorch's names: a list of objects in quotes and brackets."""
        for found in json_value(text[2:-2], "process groups", "a list"):
            if not isinstance(found, dict) or not isinstance(found.get("pg_name"), str):
                raise ValueError("process groups without pg_name; expected a list of pg_name and ranks")
            ranks = found.get("ranks")
            if not isinstance(ranks, list) or not all(isinstance(rank, int) for rank in ranks):
                raise ValueError(f"process group {found['pg_name'][:40]!r} without ranks; expected a list of numbers")
            name = found["pg_name"]
            self.named[name] = self._check(name, tuple(ranks)) if ranks else self.everyone

    def call(self, row: int, rank: int, name: str, type_: int, nbytes: int) -> None:
        """Notes a rank's next collective of that communicator."""
        if type_ not in COLLECTIVES:
            raise ValueError(f"a collective of comm_type {type_}; expected one of 0..{max(COLLECTIVES)}")
        self.calls.setdefault("" if name in EVERYONE else name, {}).setdefault(rank, []).append((row, type_, nbytes))

    def members(self, name: str) -> tuple[int, ...]:
        """The ranks of a communicator. ValueError: if nothing names them."""
        if name in EVERYONE:
            return self.everyone
        if name not in self.named:
            raise ValueError(f"nothing names the ranks of communicator {name[:40]!r}: expected --groups FILE")
        return self.named[name]

    def _check(self, name: str, members: tuple[int, ...]) -> tuple[int, ...]:
        if not members or len(set(members)) < len(members) or not all(0 <= rank < self.ranks for rank in members):
            raise ValueError(
                f"communicator {name[:40]!r} has ranks {list(members)[:8]}; expected some of 0..{self.ranks - 1}"
            )
        return members


def matched(found: Communicators) -> tuple[list[CollectiveCall], dict[int, int]]:
    """The calls, and the position of each row's call. ValueError: if the ranks of a communicator differ in their
    calls."""
    calls: list[CollectiveCall] = []
    position: dict[int, int] = {}
    for name, by_rank in found.calls.items():
        members, title = found.members(name), f"communicator {name[:40]!r}" if name else "all ranks"
        if strange := sorted(set(by_rank) - set(members)):
            raise ValueError(f"rank {strange[0]} has collectives of {title}, which it is not a member of")
        first = by_rank.get(members[0], [])
        for rank in members[1:]:
            if len(by_rank.get(rank, ())) != len(first):
                counts = f"{len(first)} on rank {members[0]}, {len(by_rank.get(rank, ()))} on rank {rank}"
                raise ValueError(f"collectives of {title}: {counts}; expected as many")
        for k, (_, type_, nbytes) in enumerate(first):
            name_of = COLLECTIVES[type_]
            whole = nbytes * len(members) if name_of in ("all_gather", "gather") else nbytes
            for rank in members:
                row, other, size = by_rank[rank][k]
                if (other, size) != (type_, nbytes):
                    mine, theirs = (f"{COLLECTIVES[t]} of {n} bytes" for t, n in ((type_, nbytes), (other, size)))
                    raise ValueError(
                        f"collective {k} of {title}: {mine} on rank {members[0]}, {theirs} on rank {rank}; "
                        "expected the same"
                    )
                position[row] = len(calls)
            calls.append(CollectiveCall(name_of, members, whole, 0 if name_of in ROOTED else None))
    return calls, position


def read_communicators(path: str) -> dict[str, tuple[int, ...]]:
    """The communicators of a file of ASTRA-sim's: an object of lists of ranks, by name. FormatError for another."""
    try:
        found = json_value(file_bytes(path, EXPECTED, MOST_BYTES), path, EXPECTED, unique=True)
    except ValueError as error:
        raise FormatError(str(error)) from None
    if not isinstance(found, dict) or not all(
        isinstance(ranks, list) and all(isinstance(rank, int) for rank in ranks) for ranks in found.values()
    ):
        raise FormatError(f"{path}: expected {EXPECTED}")
    return {name: tuple(ranks) for name, ranks in found.items()}
