"""Names of other libraries' calls are answered with those of ringtree."""

from __future__ import annotations

import pytest

from ringtree import spawn
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.communicator.foreign_names import OTHERWISE_NAMED, hint

HINTS = {
    "bcast": "; it is broadcast here, or broadcast_object for objects that are no arrays",
    "Allreduce": "; it is all_reduce here, or all_reduce_object for objects that are no arrays",
    "Iallreduce": "; it is all_reduce with async_op=True here, or all_reduce_object for objects that are no arrays",
    "all_gather_into_tensor": "; it is all_gather here, or all_gather_object for objects that are no arrays",
    "Alltoallv": "; it is all_to_all_v here",
    "ReduceScatter": "; it is reduce_scatter here",
    "Get_rank": "; it is rank here",
    "world_size": "; it is size here",
    "Isend": "; it is isend here",
    "Sendrecv": "; it is sendrecv here",
    "dance": "",
    "idance": "",
}


@pytest.mark.parametrize("name", HINTS)
def test_the_name_here_is_named(name: str) -> None:
    assert hint(name, dir(Communicator)) == HINTS[name]


def test_what_is_named_exists() -> None:
    assert [here for here in OTHERWISE_NAMED.values() if here not in (*dir(Communicator), "rank", "size")] == []


def missing(comm: Communicator) -> list[str]:
    errors = []
    for name in ("bcast", "dance", "_bcast"):
        assert not hasattr(comm, name)
        try:
            getattr(comm, name)
        except AttributeError as error:
            errors.append(str(error))
    return errors


def test_a_communicator_answers_with_it() -> None:
    words = ["a Communicator has no 'bcast'" + HINTS["bcast"], "a Communicator has no 'dance'"]
    assert spawn(missing, 1) == [[*words, "a Communicator has no '_bcast'"]]
