"""The backend of torch.distributed that carries: NCCL between GPUs, or Gloo, on hosts or through host memory.

The backend is the group's own: it is made over a store at rank 0, whose address the group's bootstrap hands on, and is
unknown to `torch.distributed`, whose default group nobody needs.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch.distributed import ReduceOp

from ringtree.runtime.engines.nccl.choice import VARIABLE
from ringtree.runtime.types import Dtype

if TYPE_CHECKING:
    from ringtree.runtime.bootstrap.protocols import NetworkBootstrap
    from ringtree.runtime.engines.engine import GroupParameters

LOOPBACK = "127.0.0.1"
GRACE_S = 60.0
"""Seconds beyond the group's own limit after which the backend gives up by itself."""

_INTEGERS = (Dtype.INT8, Dtype.UINT8, Dtype.INT32, Dtype.INT64)
_FLOATS = (Dtype.FLOAT16, Dtype.BFLOAT16, Dtype.FLOAT32, Dtype.FLOAT64)
_OF_GLOO = (*_INTEGERS, Dtype.FLOAT32, Dtype.FLOAT64)
_OPS = {"sum": ReduceOp.SUM, "prod": ReduceOp.PRODUCT, "max": ReduceOp.MAX, "min": ReduceOp.MIN, "avg": ReduceOp.AVG}
_REDUCING = ("all_reduce", "reduce", "reduce_scatter")
_MOVING = ("all_gather", "broadcast", "all_to_all")


def lacking(name: str) -> str:
    """The reason why this process has no such carrier, in words; "" where it has."""
    if name == "gloo":
        return "" if torch.distributed.is_gloo_available() else "torch has no Gloo"
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} sees no GPU"
    if name == "nccl":
        return "" if torch.distributed.is_nccl_available() else f"torch {torch.__version__} has no NCCL"
    return "" if torch.distributed.is_gloo_available() else "torch has no Gloo"


class Carrier:
    """The group's backend. What its calls return has `wait()`, after which the caller's stream, or the caller, has
    waited for it."""

    def __init__(self, name: str, backend: Any, device: torch.device) -> None:
        self.name, self.backend, self.device = name, backend, device
        self._coalesces = name == "nccl"
        self._staged = name == "staged"

    def exchange(self, sends: Sequence[tuple[int, Any]], receives: Sequence[tuple[int, Any]]) -> None:
        """Sends and receives tensors of bytes, all at once: (peer, tensor). Those of one pair keep their order."""
        backend = self.backend
        landed = [(peer, torch.empty(t.shape, dtype=t.dtype)) for peer, t in receives] if self._staged else receives
        if self._staged:
            sends = [(peer, t.cpu()) for peer, t in sends]
        if self._coalesces:
            backend._start_coalescing()
        works = [backend.recv([t], peer, 0) for peer, t in landed]
        works += [backend.send([t], peer, 0) for peer, t in sends]
        if self._coalesces:
            works = [backend._end_coalescing()]
        for work in works:
            work.wait()
        if self._staged:
            for (_, t), (_, there) in zip(receives, landed, strict=True):
                t.copy_(there)

    def serves(self, collective: str, dtype: Dtype, op: str) -> bool:
        """Whether the backend has such a collective."""
        if self._staged:
            return False
        if collective in _MOVING:
            return True
        if collective not in _REDUCING or op not in _OPS:
            return False
        if op == "avg":  # which Gloo lacks, and NCCL rounds otherwise for integers
            return self.name == "nccl" and dtype in _FLOATS
        return dtype in (*_INTEGERS, *_FLOATS) if self.name == "nccl" else dtype in _OF_GLOO

    def collective(self, collective: str, op: str, root: int, x: Any, out: Any) -> None:
        """Makes the backend's own call on flat tensors; those that only move are of bytes."""
        backend = self.backend
        if collective in _MOVING:
            x, out = (None if t is None else t.view(torch.uint8) for t in (x, out))
        if collective in ("all_reduce", "reduce", "broadcast"):
            if out is None:  # a rank that only gives; the backend may write where it reads
                out = x.clone()
            elif x is not None and x.data_ptr() != out.data_ptr():
                out.copy_(x)
        call: Callable[[], Any] = {
            "all_reduce": lambda: backend.allreduce([out], _options("Allreduce", op)),
            "reduce": lambda: backend.reduce([out], _options("Reduce", op, root)),
            "broadcast": lambda: backend.broadcast([out], _options("Broadcast", "", root)),
            "reduce_scatter": lambda: backend._reduce_scatter_base(out, x, _options("ReduceScatter", op)),
            "all_gather": lambda: backend._allgather_base(out, x),
            "all_to_all": lambda: backend.alltoall_base(out, x, [], []),
        }[collective]
        call().wait()

    def abort(self) -> None:
        """Ends what is under way, with an error, and all later calls."""
        self.backend.abort()

    def close(self) -> None:
        """Leaves the group."""
        self.backend.shutdown()


def _options(kind: str, op: str = "", root: int = -1) -> Any:
    options = getattr(torch.distributed.distributed_c10d, f"{kind}Options")()
    if op:
        options.reduceOp = _OPS[op]
    if root >= 0:
        options.rootRank = root
    return options


def connect(parameters: GroupParameters, name: str) -> Carrier:
    """The members' backend; returns when all have come. RuntimeError, the same on all ranks: where one of them lacks
    the carrier, or names another."""
    group = parameters.bootstrap_group()
    reason = lacking(name)
    listening, mine = (None, "") if reason else _address(parameters)
    port = listening.getsockname()[1] if listening else 0
    offer = _Offer(name, reason, "" if reason or name != "nccl" else _gpu(), mine, port)
    met = parameters.bootstrap.exchange(group._replace(key=f"{parameters.key}/carrier"), list(offer))
    offers = [_Offer(*theirs) for theirs in met]
    try:
        if refused := _refused(parameters.names, offers):
            raise RuntimeError(refused)
        assert listening is not None
        host, port = offers[0].address, offers[0].port
        limit = timedelta(seconds=parameters.timeout_s)
        if parameters.rank == 0:
            store = torch.distributed.TCPStore(
                host, port, None, True, limit, wait_for_workers=False, master_listen_fd=listening.detach()
            )
        else:
            listening.close()
            if hasattr(parameters.bootstrap, "address_of"):
                host = parameters.bootstrap.address_of(parameters.names[0], host)
            store = torch.distributed.TCPStore(host, port, None, False, limit, wait_for_workers=False)
    finally:
        if listening is not None:
            listening.close()
    device = torch.device("cpu") if name == "gloo" else torch.device("cuda", torch.cuda.current_device())
    make = _nccl if name == "nccl" else _gloo
    try:
        backend, failure = make(store, parameters, mine, device), ""
    except RuntimeError as error:
        backend, failure = None, " ".join(str(error).split())
    # rank 0 keeps the store until all have found each other there
    ended = parameters.bootstrap.exchange(group._replace(key=f"{parameters.key}/carried"), failure)
    for rank, text in zip(parameters.names, ended, strict=True):
        if text:
            raise RuntimeError(f"the nccl engine over {name} cannot start: on rank {rank} {text}")
    return Carrier(name, backend, device)


def _address(parameters: GroupParameters) -> tuple[socket.socket, str]:
    """A listening socket of this rank, and the address at which the others reach its host."""
    if hasattr(parameters.bootstrap, "listener"):
        listening = cast("NetworkBootstrap", parameters.bootstrap).listener()
    else:
        listening = socket.create_server((LOOPBACK, 0))
    return listening, listening.getsockname()[0]


class _Offer(NamedTuple):
    """The facts that the others need of a rank: its carrier, the reason why it has none, its GPU where no two may share
    one, and where it listens."""

    carrier: str
    reason: str
    gpu: str
    address: str
    port: int


def _gpu() -> str:
    """The identity of the current GPU; "" where torch does not give it."""
    found = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", "")
    return str(found)


def _refused(names: Sequence[str], offers: Sequence[_Offer]) -> str:
    """The reason why the ranks have no carrier in common, the same on all; "" where they have one."""
    on: dict[str, str] = {}
    for name, offer in zip(names, offers, strict=True):
        if offer.carrier != offers[0].carrier:
            differ = f"rank {names[0]} has {VARIABLE}={offers[0].carrier} and rank {name} {offer.carrier}"
            return f"{differ}: set it to the same on all ranks"
        if offer.reason:
            remedy = f"; {VARIABLE}=gloo carries arrays in host memory" if offer.carrier != "gloo" else ""
            return f"the nccl engine over {offer.carrier} cannot start: on rank {name} {offer.reason}{remedy}"
        if offer.gpu and (other := on.setdefault(offer.gpu, name)) != name:
            shared = f"ranks {other} and {name} share the GPU {offer.gpu}, which NCCL does not allow"
            return f"{shared}: torch.cuda.set_device, or {VARIABLE}=staged carries through host memory"
    return ""


def _nccl(store: Any, parameters: GroupParameters, mine: str, device: torch.device) -> Any:
    options = torch.distributed.ProcessGroupNCCL.Options()
    options._timeout = timedelta(seconds=parameters.timeout_s + GRACE_S)
    backend = torch.distributed.ProcessGroupNCCL(store, parameters.rank, parameters.ranks, options)
    backend.eager_connect_single_device(device)
    return backend


def _gloo(store: Any, parameters: GroupParameters, mine: str, device: torch.device) -> Any:
    options = torch.distributed.ProcessGroupGloo._Options()
    options._devices = [torch.distributed.ProcessGroupGloo.create_device(hostname=mine)]
    options._timeout = timedelta(seconds=parameters.timeout_s + GRACE_S)
    return torch.distributed.ProcessGroupGloo(store, parameters.rank, parameters.ranks, options)
