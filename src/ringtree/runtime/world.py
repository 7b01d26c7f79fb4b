"""The world communicator: from the environment a rank was started in to its endpoint in the group of all ranks."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ringtree.runtime import bootstrap, tracing, tuned
from ringtree.runtime.bootstrap.environment import (
    SECRET,
    World,
    detect,
    patience,
    rendezvous_address,
    secret_bytes,
    trace_folder,
)
from ringtree.runtime.bootstrap.local.abstract_socket import ABSTRACT_SOCKET
from ringtree.runtime.bootstrap.local.siblings import Siblings, started_with
from ringtree.runtime.communicator import membership
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import GroupParameters, default_engine
from ringtree.runtime.linux import after_fork_in_child, require_linux

if TYPE_CHECKING:
    from ringtree.runtime.bootstrap.protocols import HostBootstrap


def init(
    *,
    engine: str | None = None,
    timeout_s: float | None = None,
    store: bootstrap.Store | None = None,
    mpi: Any = None,
    check: bool = False,
) -> Communicator:
    """Returns this rank's communicator with all ranks of its job, when all have called it.

    Rank and size come from `ringtree run`, torchrun, mpirun (Open MPI, MPICH) or srun; without any of them it is a
    world of one. `timeout_s` bounds every wait of the group (default: RINGTREE_TIMEOUT, else 300). Calls are planned by
    rank 0's costs of this machine and its network, where `ringtree tune` has measured them. `check`, the same on all
    ranks: each collective is compared on all ranks before it begins, also in groups made from this one (docs/calls.md).

    Ranks on several hosts need a way to meet: RINGTREE_ADDRESS; `store`, an object with `set` and `get` that all ranks
    share, as torch.distributed's; or `mpi`, mpi4py's communicator of all ranks, which also gives rank and size. Rank 0
    announces its address and a secret there (docs/hosts.md).
    """
    require_linux()
    world = detect(meets=store is not None) if mpi is None else _of_mpi(mpi)
    timeout_s = patience(timeout_s)
    board = _board(world, store, mpi)
    if board is None or world.size == 1:
        return _made_here(world, engine, timeout_s, check)
    hosts = _hosts(board, world, timeout_s)
    key = hosts.next_key()
    made: Communicator | None = None
    try:
        with hosts.setting_up(key, timeout_s) as check_liveness:
            made = _made(world, key, engine, timeout_s, check, hosts, check_liveness)
    except BaseException:
        if made is not None:  # another rank failed at the very end
            made.close()
        _process.forget(hosts)
        raise
    return made


def join(at: str | None = None, *, timeout_s: float | None = None) -> Communicator:
    """Joins a group that runs, and returns this process's communicator there, when its ranks have called
    `comm.grow()`; the process needs no rank of its own. `at`: where they meet, as in `grow`; without it, the place of
    the job that this process's environment names. `timeout_s` bounds the wait to be taken in (default:
    RINGTREE_TIMEOUT, else 300); the group's own timeout bounds all later ones.

    TimeoutError: no group took this process in. RuntimeError: the group failed while it joined; another call may do.
    """
    require_linux()
    return membership.join_group(at, timeout_s)


def _of_mpi(comm: Any) -> World:
    """The world of the ranks of mpi4py's communicator."""
    return World(comm.Get_rank(), comm.Get_size(), comm.Get_size(), f"alone-{os.getpid()}", "mpi4py")


def _board(world: World, store: bootstrap.Store | None, mpi: Any) -> bootstrap.Board | None:
    """The board on which this rank finds rank 0; None where all ranks are on one host."""
    secret = secret_bytes(os.environ.get(SECRET))
    if store is not None and mpi is not None:
        raise ValueError("ringtree.init takes store or mpi, not both")
    if mpi is not None:
        return bootstrap.MpiBoard(mpi, secret)
    if store is not None:
        return bootstrap.StoreBoard(store, world.job_on_all_hosts, secret)
    address = rendezvous_address()
    if isinstance(address, str):
        return bootstrap.FileBoard(address, world.job_on_all_hosts, secret)
    return bootstrap.GivenAddress(address, secret) if address else None


def _made_here(world: World, engine: str | None, timeout_s: float, check: bool) -> Communicator:
    """The communicator of ranks that are all on this machine. Attempts in which not all have come do not count: ranks
    may have made differently many."""
    siblings, came = Siblings(started_with(world), world.rank, world.size), list[bool]()
    _process.worlds += 1
    key = f"{world.job}/init{_process.worlds}"
    try:
        return _made(world, key, engine, timeout_s, check, check_liveness=siblings.check, met=lambda: came.append(True))
    except BaseException:
        if not came:
            _process.worlds -= 1
        raise


def _made(
    world: World,
    key: str,
    engine: str | None,
    timeout_s: float,
    check: bool,
    here: HostBootstrap = ABSTRACT_SOCKET,
    check_liveness: Callable[[list[int]], None] | None = None,
    met: Callable[[], None] | None = None,
) -> Communicator:
    names = tuple(map(str, range(world.size)))
    measured = tuned.tuned_here() if world.rank == 0 else None
    cost, network = (measured.parameters, measured.network) if measured else (None, None)
    parameters = GroupParameters(
        key,
        world.rank,
        names,
        timeout_s,
        check_liveness=check_liveness,
        cost=cost,
        network=network,
        bootstrap=here,
        check=check,
        met=met,
    )
    communicator = Communicator(engine or default_engine(world.size), parameters)
    if folder := trace_folder():
        tracing.record_until_exit(communicator, folder)
    return communicator


class _Process:
    """The makings of this process: `hosts`, its way to the ranks of other hosts, made once; and how many worlds it has
    made on this machine alone.

    A forked child begins anew, as one of the next generation of its parent's job.
    """

    def __init__(self) -> None:
        self.hosts: bootstrap.MultiHostBootstrap | None = None
        self.worlds = 0
        self.generation, self.job = 0, ""
        self.board: bootstrap.Board | None = None
        after_fork_in_child(self._forked)

    def forget(self, hosts: bootstrap.MultiHostBootstrap) -> None:
        """Forgets hosts by which the ranks have never met, so that another attempt begins anew."""
        if not hosts.met:
            hosts.close()
            self.hosts = None

    def _forked(self) -> None:
        if self.hosts is not None and self.hosts.met:
            self.generation, self.job = self.generation + 1, self.hosts.job
            self.board = self.hosts.known()
        self.hosts = None


_process = _Process()


def _hosts(board: bootstrap.Board, world: World, timeout_s: float) -> bootstrap.MultiHostBootstrap:
    """This process's way to the ranks of other hosts."""
    mine = _process
    if mine.hosts is None:
        at, generation, job = board, 0, ""
        if mine.board is not None and mine.board.where == board.where:  # a child in its parent's job
            at, generation, job = mine.board, mine.generation, mine.job
        mine.hosts = bootstrap.MultiHostBootstrap(at, world.rank, world.size, timeout_s, generation=generation, job=job)
    return mine.hosts
