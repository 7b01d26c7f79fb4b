"""Memory that an engine knows by its address, as torch's tensors: on the host, and on CUDA devices."""

from __future__ import annotations

from ctypes import c_char
from typing import Any

import torch


def at_address(address: int, nbytes: int, device: torch.device) -> Any:
    """The bytes there as a tensor that shares them."""
    if not nbytes:
        return torch.empty(0, dtype=torch.uint8, device=device)
    if device.type == "cpu":
        return torch.frombuffer((c_char * nbytes).from_address(address), dtype=torch.uint8)
    try:
        found = torch.as_tensor(_Bytes(address, nbytes), device=device)
    except ValueError:  # torch knows no such memory
        raise TypeError(f"got an array on the host; expected one on {device}, which the group's ranks use") from None
    if found.data_ptr() != address:  # torch has copied it to the device
        raise TypeError(f"got an array on another device than {device}, which the group uses: torch.cuda.set_device")
    return found


class _Bytes:
    """Bytes of a device by the CUDA array interface."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
            "strides": None,
        }
