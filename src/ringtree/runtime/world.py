"""The world communicator: from the environment a rank was started in to its endpoint in the group of all ranks."""

from __future__ import annotations

import os

from ringtree.runtime.bootstrap.abstract_socket import ABSTRACT_SOCKET
from ringtree.runtime.bootstrap.bootstrap import HostBootstrap
from ringtree.runtime.bootstrap.environment import SECRET, detect, rendezvous_address, trace_folder
from ringtree.runtime.bootstrap.hosts import MultiHostBootstrap
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import GroupParameters, default_engine
from ringtree.runtime.tracing.files import record_until_exit
from ringtree.runtime.tuned import tuned_here

TIMEOUT_S = 300.0

_made = 0


def init(*, engine: str | None = None, timeout_s: float | None = None) -> Communicator:
    """Returns this rank's communicator with all ranks of its job, when all have called it.

    Rank and size come from `ringtree run`, torchrun, mpirun (Open MPI, MPICH) or srun; without any of them it is a
    world of one. `timeout_s` bounds every wait of the group (default: RINGTREE_TIMEOUT, else 300). Calls are planned by
    rank 0's costs of this machine and its network, where `ringtree tune` has measured them.
    """
    global _made
    world = detect()
    timeout_s = patience(timeout_s)
    bootstrap: HostBootstrap = ABSTRACT_SOCKET
    job = world.job
    if (address := rendezvous_address()) and world.size > 1:
        bootstrap = hosts = _hosts(address, world.rank, world.size, timeout_s)
        job = hosts.job
    _made += 1
    names = tuple(map(str, range(world.size)))
    measured = tuned_here() if world.rank == 0 else None
    cost, network = (measured.parameters, measured.network) if measured else (None, None)
    key = f"{job}/init{_made}"
    parameters = GroupParameters(key, world.rank, names, timeout_s, cost=cost, network=network, bootstrap=bootstrap)
    communicator = Communicator(engine or default_engine(world.size), parameters)
    if folder := trace_folder():
        record_until_exit(communicator, folder)
    return communicator


_met: MultiHostBootstrap | None = None


def _hosts(address: tuple[str, int], rank: int, size: int, timeout_s: float) -> MultiHostBootstrap:
    """This process's way to the ranks of other hosts, made once."""
    global _met
    if _met is None:
        _met = MultiHostBootstrap(address, os.environ.get(SECRET, "").encode(), rank, size, timeout_s)
    return _met


def patience(timeout_s: float | None) -> float:
    """The deadline of a wait in seconds: `timeout_s`, else RINGTREE_TIMEOUT."""
    given: str | float = os.environ.get("RINGTREE_TIMEOUT", TIMEOUT_S) if timeout_s is None else timeout_s
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1.0
    if not seconds > 0:
        name = "RINGTREE_TIMEOUT" if timeout_s is None else "timeout_s"
        raise ValueError(f"{name} is {given!r}; expected a positive number of seconds")
    return seconds
