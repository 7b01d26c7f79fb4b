"""The world communicator: from the environment a rank was started in to its endpoint in the group of all ranks."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ringtree.runtime import bootstrap, tracing, tuned
from ringtree.runtime.bootstrap.environment import (
    MOST_SHOWN,
    SECRET,
    TRACE_FOLDER,
    World,
    detect,
    patience,
    rendezvous_address,
    secret_bytes,
    trace_folder,
)
from ringtree.runtime.bootstrap.local.abstract_socket import ABSTRACT_SOCKET
from ringtree.runtime.bootstrap.local.siblings import Siblings, ended_ranks, reported_ends, started_with
from ringtree.runtime.communicator import membership
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import GroupParameters, default_engine, in_threads
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
    rank 0's costs of this machine and its network, where `ringtree tune` has measured them. `check`, of one
    rank or more: each collective is compared on all ranks before it begins, also in groups made from this one
    (docs/calls.md).

    Ranks on several hosts need a way to meet: RINGTREE_ADDRESS; `store`, an object with `set` and `get` that all ranks
    share, as torch.distributed's; or `mpi`, mpi4py's communicator of all ranks, which also gives rank and size. Rank 0
    announces its address and a secret there (docs/hosts.md).
    """
    require_linux()
    if store is not None:
        _check_store(store)
    world = detect(meets=store is not None) if mpi is None else _of_mpi(mpi)
    board = _board(world, store, mpi)
    by = next((by for by in (store, mpi) if by is not None), board.where if board else "")
    try:
        timeout_s = patience(timeout_s)
    except ValueError as error:
        if board is not None and world.rank == 0 < world.size - 1 and _known(by, world) is None:
            board.give_up(str(error))  # by MPI the others wait for it without a limit
        raise
    if board is None or world.size == 1:
        return _made_here(world, engine, timeout_s, check)
    hosts = _known(by, world) or _hosts(by, board, world, timeout_s)
    key = hosts.next_key()
    made: Communicator | None = None
    try:
        with hosts.setting_up(key, timeout_s, reported_ends(world).check) as check_liveness:
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
    _check_mpi(comm)
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
    siblings, came = Siblings(started_with(world), world.rank, world.size, ended_ranks(world)), list[bool]()
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
    _check_engine(engine, world)
    _check_trace_folder(world)
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


class _Way(NamedTuple):
    """A way to the ranks of other hosts. `by`: the store, the communicator of MPI, or the words of the address by which
    they meet; `rank`, `size`: this process's number among them, and theirs."""

    by: Any
    rank: int
    size: int
    generation: int
    hosts: bootstrap.MultiHostBootstrap


class _ParentsWay(NamedTuple):
    """A way of the process that this one was forked from, without its connections."""

    by: Any
    rank: int
    size: int
    generation: int
    job: str
    board: bootstrap.Board


class _Process:
    """The makings of this process: its ways to the ranks of other hosts, each made once; and how many worlds it has
    made on this machine alone.

    A forked child begins anew, as one of the next generation of its parent's job.
    """

    def __init__(self) -> None:
        self.ways: list[_Way] = []
        self.parents: list[_ParentsWay] = []
        self.worlds = 0
        after_fork_in_child(self._forked)

    def keep(self, way: _Way) -> None:
        """Keeps a way for the next world of the same ranks; the oldest of many goes on with its groups alone."""
        self.ways.append(way)
        for oldest in self.ways[:-MOST_WAYS]:
            oldest.hosts.leave_when_unused()
        del self.ways[:-MOST_WAYS]

    def forget(self, hosts: bootstrap.MultiHostBootstrap) -> None:
        """Forgets hosts by which the ranks have never met, so that another attempt begins anew."""
        if not hosts.met:
            hosts.close()
            self.ways = [way for way in self.ways if way.hosts is not hosts]

    def _forked(self) -> None:
        met = [way for way in self.ways if way.hosts.met]
        known = [_ParentsWay(*way[:3], way.generation + 1, way.hosts.job, way.hosts.known()) for way in met]
        self.parents = [*known, *self.parents]
        self.ways = []


MOST_WAYS = 16
"""Ways that are kept: of a program whose worlds meet by ever new stores or communicators, the last ones."""
_process = _Process()


def _is_of(way: _Way | _ParentsWay, by: Any, world: World) -> bool:
    """Whether the ranks of that world meet so."""
    return (way.rank, way.size) == (world.rank, world.size) and bool(way.by is by or way.by == by)


def _known(by: Any, world: World) -> bootstrap.MultiHostBootstrap | None:
    """This process's way to the ranks of that world, where it has met them so."""
    return next((way.hosts for way in _process.ways if _is_of(way, by, world)), None)


def _hosts(by: Any, board: bootstrap.Board, world: World, timeout_s: float) -> bootstrap.MultiHostBootstrap:
    """A new way to the ranks of that world."""
    parents = next((way for way in _process.parents if _is_of(way, by, world)), None)
    at, generation, job = (parents.board, parents.generation, parents.job) if parents else (board, 0, "")
    hosts = bootstrap.MultiHostBootstrap(
        at, world.rank, world.size, timeout_s, reported_ends(world).check, generation=generation, job=job
    )
    _process.keep(_Way(by, world.rank, world.size, generation, hosts))
    return hosts


def _check_engine(engine: str | None, world: World) -> None:
    """ValueError: for an engine whose ranks are threads, in a world of several processes."""
    if engine is not None and world.size > 1 and in_threads(engine):
        raise ValueError(
            f"rank {world.rank} of {world.size}: the ranks of engine {engine!r} are threads of one process, and these "
            f"are not; expected engine 'shm', or ringtree.spawn(work, {world.size}, engine={engine!r}, threads=True)"
        )


def _check_store(store: Any) -> None:
    """TypeError: for what has not the methods of a store."""
    if not all(callable(getattr(store, name, None)) for name in ("set", "get")):
        raise TypeError(
            f"store is {_shown(store)}; expected an object with set(key, value) and get(key), as torch's stores"
        )


def _check_mpi(comm: Any) -> None:
    """TypeError: for what is no communicator. ValueError: for one whose ranks are two groups."""
    if not all(callable(getattr(comm, name, None)) for name in ("Get_rank", "Get_size", "bcast")):
        raise TypeError(f"mpi is {_shown(comm)}; expected mpi4py's communicator of all ranks, as MPI.COMM_WORLD")
    if callable(inter := getattr(comm, "Is_inter", None)) and inter():
        raise ValueError("mpi is an intercommunicator of two groups; expected one of one group, as its Merge() makes")


def _check_trace_folder(world: World) -> None:
    """ValueError: where the folder of recordings is not there, or not to be written in."""
    folder = trace_folder()
    if folder and not (os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)):
        raise ValueError(
            f"rank {world.rank} cannot write its recording in {TRACE_FOLDER}={folder}; expected a folder that is "
            "there and that it may write in"
        )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"a {type(value).__name__}"
