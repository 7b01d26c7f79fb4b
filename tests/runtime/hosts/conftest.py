"""Ranks on several hosts, which are namespaces of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import wait
from typing import Any

import pytest

from ringtree.price import CostParameters  # noqa: F401  # loaded before ranks are forked
from ringtree.runtime.bootstrap.bootstrap import BootstrapGroup
from ringtree.runtime.bootstrap.network.contact import GivenAddress
from ringtree.runtime.bootstrap.network.hosts import MultiHostBootstrap
from ringtree.runtime.engines.engine import GroupParameters
from ringtree.runtime.engines.wires import DEFAULT, VARIABLE, WIRES
from ringtree.runtime.launch.crew import Outcome
from ringtree.runtime.launch.spawn import Pool
from ringtree.runtime.launch.spawn_processes import Processes
from tests.runtime.conftest import available
from tests.runtime.hosts.lab import Lab, missing
from tests.runtime.hosts.started import Started

Layout = tuple[int, ...]
"""How many ranks each host has."""
HostPools = Callable[..., Pool]
PORT = 29400
SETTINGS = {"ucx": {"UCX_TLS": "tcp", "UCX_NET_DEVICES": "eth0", "UCX_RNDV_THRESH": "16k"}}
"""What a wire's library finds in the environment: namespaces have eth0 only, and both protocols of UCX are to occur."""
SECRET = b"of the tests"


class Moved:
    """A rank's bootstrap, which moves the rank to its host before it meets anyone."""

    def __init__(
        self, lab: Lab, host: int, rank: int, size: int, port: int, timeout_s: float, secret: bytes, wire: str
    ) -> None:
        self._lab, self._host, self._wire = lab, host, wire
        self._hosts: MultiHostBootstrap | None = None
        self._arguments: Any = (GivenAddress((lab.address(0), port), secret), rank, size, timeout_s)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._hosts is None:
            self._lab.enter(self._host)
            os.environ.update({VARIABLE: self._wire}, **SETTINGS.get(self._wire, {}))
            self._hosts = MultiHostBootstrap(*self._arguments)
            self._hosts.find("lab")
        return getattr(self._hosts, name)

    def exchange(self, group: BootstrapGroup, value: Any = None) -> list[Any]:
        return self.__getattr__("exchange")(group, value)


def host_of(layout: Layout) -> list[int]:
    return [host for host, ranks in enumerate(layout) for _ in range(ranks)]


def parameters_on(
    lab: Lab,
    layout: Layout,
    port: int,
    timeout_s: float,
    secrets: list[bytes] | None = None,
    wires: Sequence[str] = (DEFAULT,),
) -> list[GroupParameters]:
    """Of each rank of a world that meets at that port of host 0. `wires`: of the ranks, or one for all."""
    places = host_of(layout)
    size = len(places)
    names = tuple(map(str, range(size)))
    moved = [
        Moved(lab, host, rank, size, port, timeout_s, secrets[rank] if secrets else SECRET, wires[rank % len(wires)])
        for rank, host in enumerate(places)
    ]
    return [GroupParameters(f"lab{port}", r, names, timeout_s, bootstrap=moved[r]) for r in range(size)]


class HostPool(Pool):
    """A pool whose ranks are on the hosts of a lab."""

    def __init__(self, lab: Lab, layout: Layout, port: int, wire: str, timeout_s: float = 60.0) -> None:
        parameters = parameters_on(lab, layout, port, timeout_s, wires=[wire])
        self._have(sum(layout), Processes("shm", parameters, None, False))


class HostCrew:
    """Ranks on the hosts of a lab that have one task."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self.pids = list(processes._pids)

    def finish(self, awaited: int | None = None) -> list[tuple[int, Outcome]]:
        """What became of each rank; of the first `awaited` of them."""
        pipes = self._processes._pipes
        if awaited is not None:
            self._processes._pipes = pipes[:awaited]
        try:
            return self._processes.finish(30.0)
        finally:
            self._processes._pipes = pipes

    def any_ended(self) -> bool:
        """Whether a rank has a result, or its process is gone."""
        return bool(wait(self._processes._pipes, 0))

    def stop(self) -> None:
        self._processes.stop()


def survivors(outcomes: list[tuple[int, Outcome]]) -> dict[int, Any]:
    """The results of those that did not fail, by rank."""
    return {rank: outcome.result for rank, outcome in outcomes if not outcome.failed}


Ranks = Callable[..., HostCrew]


def lacking(wire: str) -> str:
    """Why this machine lacks a wire; "" where it has it."""
    return ucx_refusal() if wire == "ucx" else ""


def ucx_refusal(**variables: str) -> str:
    """Why UCX makes no end with these variables; "" where it does. Asked in a process of its own, for the library
    outlives no fork."""
    make = "from ringtree.runtime.engines.wires.ucx import UcxEnd; UcxEnd(None)"
    done = subprocess.run([sys.executable, "-c", make], capture_output=True, text=True, env=os.environ | variables)
    return done.stderr.strip().rpartition("\n")[2] if done.returncode else ""


@pytest.fixture(scope="session", params=list(WIRES))
def wire(request: pytest.FixtureRequest) -> str:
    """Every wire of the table, by name."""
    name = str(request.param)
    if why := lacking(name):
        pytest.skip(why)
    return name


@pytest.fixture
def ranks(lab: Lab, ports: Iterator[int]) -> Iterator[Ranks]:
    """ranks((2, 1), fn): a crew of which every rank runs fn(comm). `wires`: of the ranks, or one for all."""
    started: list[HostCrew] = []

    def start(
        layout: Layout,
        fn: Callable[..., Any],
        secrets: list[bytes] | None = None,
        timeout_s: float = 60.0,
        wires: Sequence[str] = (DEFAULT,),
    ) -> HostCrew:
        parameters = parameters_on(lab, layout, next(ports), timeout_s, secrets, wires)
        started.append(HostCrew(Processes("shm", parameters, (fn, ()), False)))
        return started[-1]

    yield start
    for crew in started:
        crew.stop()


def made_lab() -> Iterator[Lab]:
    """Three hosts without a limit of rate; skips where none can be made."""
    if not available("shm"):
        pytest.skip("the native engine is not built")
    if why := missing():
        pytest.skip(why)
    with Lab(3) as made:
        yield made


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """Hosts for all tests that leave them as they are."""
    yield from made_lab()


@pytest.fixture
def started() -> Iterator[Started]:
    """Processes that call ringtree.init() themselves, ended after the test."""
    made = Started()
    yield made
    made.stop()


@pytest.fixture(scope="session")
def ports() -> Iterator[int]:
    """A port for each world: one that just ended may still hold its own."""
    return iter(range(PORT, 65535))


@pytest.fixture(scope="session")
def host_pools(lab: Lab, ports: Iterator[int]) -> Iterator[HostPools]:
    """host_pools((2, 1)): three ranks on two hosts, kept for the next test that asks."""
    kept: dict[tuple[Layout, str], Pool] = {}

    def get(layout: Layout, wire: str = DEFAULT) -> Pool:
        pool = kept.get((layout, wire))
        if pool is None or not pool.alive:
            pool = kept[layout, wire] = HostPool(lab, layout, next(ports), wire)
        return pool

    yield get
    for pool in kept.values():
        pool.close()
