"""vLLM's communicator of a group of ranks: its collectives, and dictionaries of tensors from stage to stage."""

from __future__ import annotations

import torch
import torch.distributed as dist
from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator
from vllm.logger import init_logger

from ringtree.torch_backend import communicator
from ringtree.torch_backend.tensors import filled, plain
from ringtree.vllm import operators

LOG = init_logger("vllm.ringtree")


class GroupCommunicator(CpuCommunicator):
    """One rank's part of a group. Tensors are dense ones on the CPU (else TypeError); ranks are numbers in the group.
    Every member makes the same calls in the same order (else Mismatch)."""

    def __init__(
        self,
        cpu_group: dist.ProcessGroup,
        device: torch.device | None = None,
        device_group: dist.ProcessGroup | None = None,
        unique_name: str = "",
        use_all2all: bool = False,
    ) -> None:
        experts = unique_name.split(":")[0] == "ep"  # with other names vLLM's class makes shared memory of its own
        super().__init__(cpu_group, device, device_group, unique_name if experts else "", use_all2all=use_all2all)
        self.unique_name = unique_name
        self._comm = communicator(device_group)
        self._number = operators.number(self._comm)
        self.dist_module, self.supports_tensor_dict = dist, True
        LOG.info("ringtree serves vLLM's group %s of %d ranks", unique_name, self.world_size)

    def destroy(self) -> None:
        """Ends the group's part in compiled graphs."""
        operators.forget(self._number)

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        """The sum over all ranks: in place, where the tensor is contiguous."""
        x = input_.contiguous()
        torch.ops.ringtree.all_reduce_(x, self._number)
        return x

    def all_gather(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """The tensors of all ranks, one after another along `dim`."""
        out = torch.empty((self.world_size, *input_.shape), dtype=input_.dtype)
        torch.ops.ringtree.all_gather_into(out, input_.contiguous(), self._number)
        return _joined(out, dim)

    def gather(self, input_: torch.Tensor, dst: int = 0, dim: int = -1) -> torch.Tensor | None:
        """At rank `dst` the tensors of all ranks, one after another along `dim`; None elsewhere."""
        x = input_.contiguous()
        if self.rank_in_group != dst:
            self._comm.gather(plain(x), dst)
            return None
        out = torch.empty((self.world_size, *x.shape), dtype=x.dtype)
        self._comm.gather(plain(x), dst, out=filled(out)[0])
        return _joined(out, dim)

    def send_tensor_dict(self, tensor_dict: dict[str, torch.Tensor], dst: int) -> None:
        """Sends the names, shapes and types, then the tensors; returns when they may be changed. TypeError for values
        that are no tensors."""
        for name, value in tensor_dict.items():
            if not isinstance(value, torch.Tensor):
                raise TypeError(f"{name!r} is a {type(value).__name__}; expected a tensor of the CPU's")
        xs = {name: plain(x.contiguous()) for name, x in tensor_dict.items()}
        self._comm.send_object([(name, tuple(x.shape), x.dtype) for name, x in tensor_dict.items()], dst)
        for x in xs.values():
            if x.numel():
                self._comm.send(x, dst)

    def recv_tensor_dict(self, src: int) -> dict[str, torch.Tensor]:
        """The earliest dictionary that rank `src` has sent."""
        outs = {name: torch.empty(shape, dtype=dtype) for name, shape, dtype in self._comm.recv_object(src)}
        for out in outs.values():
            if out.numel():
                self._comm.recv(filled(out)[0], src)
        return outs


def _joined(parts: torch.Tensor, dim: int) -> torch.Tensor:
    """Parts [ranks, ...] one after another along `dim` of each."""
    dim %= parts.dim() - 1
    shape = list(parts.shape[1:])
    shape[dim] *= len(parts)
    return parts.movedim(0, dim).reshape(shape)
