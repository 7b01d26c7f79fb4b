"""Info: hints by name, and what keeps them."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest

from ringtree import mpi as MPI


def test_an_info_is_a_dictionary_of_texts() -> None:
    info = MPI.Info.Create({"a": "1"})
    info["b"] = "2"
    info.Set("c", "3")
    del info["a"]
    assert (info.items(), info.Get("b"), info.Get("a"), info.Get_nthkey(1)) == (
        [("b", "2"), ("c", "3")],
        "2",
        None,
        "c",
    )
    for beyond in (-1, 2):
        with pytest.raises(MPI.Exception, match=f"no name {beyond}: expected one of 2, from 0"):
            info.Get_nthkey(beyond)
    again = pickle.loads(pickle.dumps(info))
    assert again.items() == info.items()
    assert again != info
    info.Free()
    assert info == MPI.INFO_NULL
    with pytest.raises(KeyError, match="INFO_NULL takes no names"):
        info["a"] = "1"


def test_a_communicator_keeps_its_hints() -> None:
    comm = MPI.COMM_SELF.Dup(MPI.Info.Create({"x": "1"}))
    comm.Set_info(MPI.Info.Create({"y": "2"}))
    assert comm.Get_info().items() == comm.Dup().info.items() == [("x", "1"), ("y", "2")]


@pytest.mark.parametrize(
    "ask",
    [
        lambda null: null.Set("a", "1"),
        lambda null: null.Get("a"),
        lambda null: null.Delete("a"),
        lambda null: null.Get_nkeys(),
        lambda null: null.Get_nthkey(0),
        lambda null: null.Dup(),
        lambda null: null.Free(),
    ],
)
def test_a_null_info_is_refused_by_mpis_calls(ask: Callable[[MPI.Info], object]) -> None:
    with pytest.raises(MPI.Exception, match="INFO_NULL has no names") as caught:
        ask(MPI.INFO_NULL)
    assert caught.value == MPI.ERR_INFO


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(MPI.Exception, match="no empty name") as caught:
        MPI.Info.Create().Set("", "x")
    assert caught.value == MPI.ERR_INFO_KEY
