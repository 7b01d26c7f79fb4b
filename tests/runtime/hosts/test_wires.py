"""Which wire carries the frames: ranks agree on it, each is what it says, and none listens to who proves nothing."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from ringtree.errors import PeerDied
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import GroupParameters
from ringtree.runtime.engines.network import ANSWERS, OPENS
from ringtree.runtime.engines.wires import WIRES, chosen
from ringtree.runtime.engines.wires.ucx import LIBRARY
from ringtree.runtime.launch.spawn_processes import Processes
from tests.runtime.hosts.conftest import HostCrew, HostPools, Moved, Ranks, lacking, parameters_on, ucx_refusal
from tests.runtime.hosts.lab import Lab


def maps_of(comm: Communicator) -> bool:
    comm.all_reduce(np.ones(10))
    with open("/proc/self/maps") as maps:
        return "libucp.so" in maps.read()


def test_a_library_is_loaded_by_the_wire_that_needs_it(host_pools: HostPools, wire: str) -> None:
    assert host_pools((1, 1), wire).run(maps_of) == [wire == "ucx"] * 2


def test_ranks_with_different_wires_are_refused_on_all(ranks: Ranks, wire: str) -> None:
    if wire == "tcp":
        pytest.skip("needs another wire than tcp")
    outcomes = dict(ranks((1, 1), lambda comm: None, wires=["tcp", wire]).finish())
    for rank in (0, 1):
        assert f"rank 0 has the wire tcp and rank 1 {wire}: set RINGTREE_WIRE" in outcomes[rank].story


def test_a_rank_without_the_library_is_named_on_all(ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIBRARY, "/nowhere/libucp.so.0")
    outcomes = dict(ranks((1, 1), lambda comm: None, wires=["tcp", "ucx"]).finish())
    for rank in (0, 1):
        story = outcomes[rank].story
        assert "rank 1: RINGTREE_WIRE=ucx: UCX cannot be loaded: /nowhere/libucp.so.0" in story
        assert "pip install libucx-cu12, or name a libucp in RINGTREE_UCX_LIBRARY" in story


INSTALL = "; pip install libucx-cu12, or name a libucp in RINGTREE_UCX_LIBRARY"


@pytest.mark.parametrize(
    ("variables", "remedy"),
    [
        ({LIBRARY: "/nowhere/libucp.so.0"}, INSTALL),
        ({LIBRARY: "libm.so.6"}, f"UCX 1.18 or a later 1.x is needed{INSTALL}"),
        ({"UCX_TLS": "pigeon"}, "; without UCX_TLS=pigeon UCX chooses by itself"),
        (
            {"UCX_TLS": "tcp", "UCX_NET_DEVICES": "eth77"},
            "; without UCX_TLS=tcp and UCX_NET_DEVICES=eth77 UCX chooses by itself",
        ),
    ],
)
def test_the_remedy_is_of_what_is_wrong(variables: dict[str, str], remedy: str) -> None:
    if LIBRARY not in variables and (why := lacking("ucx")):
        pytest.skip(why)
    refused = ucx_refusal(**variables)
    assert refused.startswith("RuntimeError: RINGTREE_WIRE=ucx: ") and refused.endswith(remedy), refused


def test_a_wire_that_there_is_not_is_refused() -> None:
    assert chosen({}) == chosen({"RINGTREE_WIRE": ""}) == "tcp"
    assert all(chosen({"RINGTREE_WIRE": name}) == name for name in WIRES)
    with pytest.raises(ValueError, match="RINGTREE_WIRE is 'pigeon': expected one of tcp, ucx"):
        chosen({"RINGTREE_WIRE": "pigeon"})


def sums_beside_a_fork(comm: Communicator) -> list[float]:
    """A forked child ends in each of both ways, and may call nothing."""
    found = [float(comm.all_reduce(np.ones(50_000))[0])]
    for ending in (os._exit, ctypes.CDLL(None).exit):  # the second calls what libraries have for their end
        if (child := os.fork()) == 0:
            try:
                comm.all_reduce(np.ones(10))
            except Exception:  # noqa: BLE001
                ending(0)
            ending(1)
        found.append(float(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
        found.append(float(comm.all_reduce(np.ones(50_000))[0]))
    return found


def test_a_forked_child_disturbs_nobody(ranks: Ranks, wire: str) -> None:
    outcomes = dict(ranks((1, 1), sums_beside_a_fork, wires=[wire]).finish())
    for rank in (0, 1):
        assert outcomes[rank].result == [2.0, 0.0, 2.0, 0.0, 2.0], outcomes[rank].story


REFUSED_S = 0.5
"""Seconds in which the connections of a rank are all refused, while it is in the group. A rank that waits for it
meanwhile would connect to it: by UCX it has a proof of its own, and over TCP it would find out by the answer."""


class Unproved(Moved):
    """Of a rank that has the others' addresses and not what proves it."""

    def proof(self, act: str, key: str, source: int, target: int, nonces: Sequence[str]) -> bytes:
        if source == 1 and act in self.unproved:
            return bytes(32)
        return bytes(self.__getattr__("proof")(act, key, source, target, nonces))

    unproved: Sequence[str] = (OPENS, ANSWERS)


class Unanswering(Unproved):
    unproved = (ANSWERS,)


def beside_unproved(lab: Lab, port: int, wire: str, kind: type[Unproved], rank: Callable[..., list[str]]) -> list[str]:
    """What rank 0 returns beside a rank 1 that lacks those proofs."""
    right, wrong = parameters_on(lab, (1, 1), port, 60.0, wires=[wire])
    wrong.bootstrap.__class__ = kind
    parameters: list[GroupParameters] = [right, wrong]
    crew = HostCrew(Processes("shm", parameters, (rank, ()), False))
    outcomes = dict(crew.finish())
    crew.stop()
    result: list[str] = outcomes[0].result
    return result


def test_a_rank_that_cannot_prove_what_it_answers_gets_nothing(lab: Lab, ports: Iterator[int]) -> None:
    def rank(comm: Communicator) -> list[str]:
        try:
            comm.recv(np.ones(10), 1) if comm.rank == 0 else time.sleep(REFUSED_S)  # who waits finds out who is there
        except Exception as error:  # noqa: BLE001
            return [type(error).__name__, str(error)]
        return ["none", ""]

    kind, message = beside_unproved(lab, next(ports), "tcp", Unanswering, rank)
    assert kind == PeerDied.__name__ and "answered without a proof that it is of this job" in message, message


@pytest.mark.slow
def test_a_rank_that_proves_nothing_is_not_heard(lab: Lab, ports: Iterator[int], wire: str) -> None:
    def rank(comm: Communicator) -> list[str]:
        if comm.rank == 0:
            time.sleep(REFUSED_S)
        try:
            comm.broadcast(np.ones(1000), 1)
            if comm.rank == 1:
                time.sleep(REFUSED_S)
        except Exception as error:  # noqa: BLE001
            return [type(error).__name__, str(error)]
        return ["none", ""]

    kind, message = beside_unproved(lab, next(ports), wire, Unproved, rank)
    assert kind == PeerDied.__name__ and "rank 1 is out of reach" in message, message
