"""The table of engines. An engine gives a rank an endpoint in a group, which runs programs (see `protocols`).

An engine is one line in ENGINES: a module with `join(parameters) -> JoinedGroup`, and with `IN_THREADS = True` where
ranks can only be threads of one process. All engines pass the same contract suite, which reads this table
(tests/runtime/engines/test_contract.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import ringtree
from ringtree.ir.digest import sha256
from ringtree.runtime.bootstrap.bootstrap import BootstrapGroup
from ringtree.runtime.bootstrap.local.abstract_socket import ABSTRACT_SOCKET

if TYPE_CHECKING:
    from ringtree.price import CostParameters, Devices, NetworkCost
    from ringtree.runtime.bootstrap.protocols import HostBootstrap
    from ringtree.runtime.engines.protocols import Endpoint, OwnCollectives, TimedRuns

ENGINES = {
    "shm": "ringtree.runtime.engines.shm",
    "reference": "ringtree.runtime.engines.reference.engine",
    "emulated": "ringtree.runtime.engines.emulated",
}
"""Name -> module: the engines that the contract suite holds to numpy's results on any machine."""
DEVICE_ENGINES = {
    "cuda": "ringtree.runtime.engines.cuda",
    "nccl": "ringtree.runtime.engines.nccl.engine",
}
"""The same of engines for arrays in devices' memory, which calls reach beside a group of one of the above."""


class GroupParameters(NamedTuple):
    """The parameters that members agree on before there is a group. `key` is a text that all members derive alike.

    `names` are the members' world ranks, for messages. `threads`: the members are threads of one process.
    `check_liveness`, in a group made from another, raises when a member has died. `slots`: how many staging slots a
    rank needs at least; 0 leaves it to the engine. `inherited`: in a group made from another, what the endpoint there
    knows of the members (`Health.inherited`). `cost`: the parameters by which calls are planned; a world takes rank
    0's, and None stands for the built-in ones; `network`: the same of a measured network between hosts. `bootstrap`:
    how the members find each other. `reductions`: what is asked of the bits of all reductions, as `set_reductions`
    takes it; None leaves it to the environment. `check`: calls are compared on all ranks before they begin.
    `takes_turns`: threads of a rank may call at once, in an order that is the same on all ranks; else the group fails.
    `met`: as BootstrapGroup's.
    """

    key: str
    rank: int
    names: tuple[str, ...]
    timeout_s: float
    threads: bool = False
    check_liveness: Callable[[list[int]], None] | None = None
    slots: int = 0
    inherited: Any = None
    cost: CostParameters | None = None
    network: NetworkCost | None = None
    bootstrap: HostBootstrap = ABSTRACT_SOCKET
    reductions: tuple[bool | str, str | None] | None = None
    check: bool = False
    takes_turns: bool = False
    met: Callable[[], None] | None = None

    @property
    def ranks(self) -> int:
        """The number of members."""
        return len(self.names)

    @property
    def subject(self) -> str:
        """The purpose of the bootstrap, in words."""
        return f"the group of {self.ranks} ranks"

    def bootstrap_group(self, build: str = "") -> BootstrapGroup:
        """The members before there is a group."""
        members = self.key, self.rank, self.names, self.subject, self.timeout_s, self.check_liveness
        return BootstrapGroup(*members, build=build, inherited=self.inherited is not None, met=self.met)


class NetworkParameters(NamedTuple):
    """The network between the members' hosts: the kernel's latency, 0 where it is unknown, and `ringtree tune`'s costs.
    `turns`: the most ranks that share a core. The same for all members."""

    latency_s: float = 0.0
    turns: float = 1.0
    measured: NetworkCost | None = None


class JoinedGroup(NamedTuple):
    """An endpoint, and what the members have learnt of each other. Each rank has `slots` staging slots of `slot_bytes`.

    The rest is the same for all members: `cores`, how many cores the members on a machine may use between them (the
    least of all machines); `cost`; where there are several hosts, `hosts`, the number of each member's, and `network`;
    `single_copy_bytes`, the longest message that may be read where it lies in its sender's memory, 0 where none is, and
    `reads_Bps`, the rate at which the kernel does so, as rank 0 has found it; `on_a_mesh`, whether a mesh joins the
    cores of rank 0; `cores_are_shared`, whether a machine has more members than cores;
    `nodes`, each member's NUMA node, where all are known, on one host, and several; `speed` of the slowest core, as a
    share of the fastest of its machine. `devices`: of an engine whose programs work on arrays in devices' memory;
    `stages`: messages wait in staging slots, else any number may be under way; `own`: the collectives that the engine
    has without a program; `timed`: its calls that report the time of their work, None where there are none.
    """

    endpoint: Endpoint
    slots: int
    slot_bytes: int
    cores: int
    cost: CostParameters | None = None
    hosts: tuple[int, ...] = ()
    network: NetworkParameters | None = None
    single_copy_bytes: int = 0
    reads_Bps: float = 0.0
    nodes: tuple[int, ...] = ()
    speed: float = 1.0
    devices: Devices | None = None
    stages: bool = True
    own: OwnCollectives | None = None
    on_a_mesh: bool = False
    cores_are_shared: bool = False
    timed: TimedRuns | None = None

    def without_engine(self, gone: Endpoint) -> JoinedGroup:
        """The same facts with another endpoint in place of the engine's, which is let go of."""
        return self._replace(endpoint=gone, timed=None)


def join(engine: str, parameters: GroupParameters) -> JoinedGroup:
    """Takes this rank's endpoint in a new group; returns when all members have come."""
    joined: JoinedGroup = _module(engine).join(parameters)
    return joined


def in_threads(engine: str) -> bool:
    """Whether that engine's ranks can only be threads of one process."""
    return bool(getattr(_module(engine), "IN_THREADS", False))


def _module(engine: str) -> Any:
    module = ENGINES.get(engine) or DEVICE_ENGINES.get(engine)
    if module is None:
        raise ValueError(f"no engine {engine!r}: expected one of {', '.join([*ENGINES, *DEVICE_ENGINES])}")
    try:
        return import_module(module)
    except ImportError as error:
        if error.name != "torch":
            raise
        raise ImportError(f"the {engine} engine needs torch ({error}): pip install torch", name="torch") from None


def device_engine(env: Mapping[str, str], over_hosts: bool = False) -> str:
    """The engine of calls on devices' arrays: RINGTREE_DEVICE_ENGINE, by default cuda on one machine and nccl over
    several hosts. ValueError: for another."""
    given = env.get("RINGTREE_DEVICE_ENGINE")
    if given and given not in DEVICE_ENGINES:
        raise ValueError(f"RINGTREE_DEVICE_ENGINE is {given!r}; expected one of {', '.join(DEVICE_ENGINES)}")
    return given or ("nccl" if over_hosts else "cuda")


def native_module() -> Any:
    """The native module. ImportError where it was not built, RuntimeError where it was built for other Python sources
    than those beside it."""
    native = import_module("ringtree._native")
    if not _interface().startswith(getattr(native, "INTERFACE", "none")):
        raise RuntimeError(
            f"the native engine ({native.__file__}) was built for another version of the Python beside it: "
            "pip install . builds it anew, in a checkout: make setup"
        )
    return native


@cache
def _interface() -> str:
    """The digest of the native module's interface in the Python sources."""
    with open(os.path.join(os.path.dirname(ringtree.__file__), "_native.pyi"), "rb") as beside:
        return sha256(beside.read()).hexdigest()


def default_engine(ranks: int) -> str:
    """The native engine; where it was not built, the reference engine can still serve a world of one."""
    try:
        native_module()
    except ImportError as error:
        if ranks == 1:
            return "reference"
        raise RuntimeError(
            f"the native engine is not installed ({error}): pip install . in ringtree's folder builds it"
        ) from None
    return "shm"
