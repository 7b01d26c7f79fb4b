"""Symmetric memory: arrays in memory that all ranks of a group share, so that peers read them where they lie."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from ctypes import c_char
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringtree.errors import Mismatch
from ringtree.runtime.engine import Seat, Terms
from ringtree.runtime.rendezvous import Party, meet, reserve

PAGE = 4096
REQUEST_INTS = 16
"""A request travels as this many int64: as the text that it is shown as."""


def request(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[np.int64]:
    """What a rank asks for, to be compared with what the others ask for."""
    text = f"shape {shape} of {dtype.name}".encode()[: REQUEST_INTS * 8]
    return np.frombuffer(text.ljust(REQUEST_INTS * 8, b"\0"), np.int64)


def agree(requests: NDArray[np.int64], names: Sequence[str]) -> None:
    """Raises Mismatch, alike on every rank, unless all asked for the same."""
    asked = [r.tobytes().rstrip(b"\0").decode(errors="replace") for r in requests]
    for name, other in zip(names, asked, strict=True):
        if other != asked[0]:
            raise Mismatch(f"empty: rank {names[0]} asks for {asked[0]}, rank {name} for {other}; expected the same")


def stride_bytes(nbytes: int) -> int:
    """From one rank's array of `nbytes` to the next rank's, in everybody's addresses."""
    return max(-(-nbytes // PAGE) * PAGE, PAGE)


def allocate(seat: Seat, terms: Terms, place: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """This rank's array, zeroed; all ranks of the group ask for the same shape and type.

    The array holds on to the seat: its memory is mapped for as long as that lives, closed or not.
    """
    if any(length < 0 for length in shape):
        raise ValueError(f"an array of shape {shape}: expected lengths of at least 0")
    nbytes = math.prod(shape) * dtype.itemsize
    stride = stride_bytes(nbytes)
    subject = f"an array of shape {shape} of {dtype.name}, {terms.ranks} times in shared memory"
    if terms.ranks == 1:
        fd = reserve(stride, subject)
    else:
        look = partial(seat.look, "empty")
        party = Party(place, terms.rank, terms.ranks, terms.names, subject, terms.timeout_s, look)
        fd, _ = meet(party, stride * terms.ranks)
    try:
        address = seat.add_region(fd, stride * terms.ranks, stride * terms.rank)
    finally:
        os.close(fd)
    memory: Any = (c_char * stride).from_address(address)
    memory.seat = seat
    return np.frombuffer(memory, np.uint8)[:nbytes].view(dtype).reshape(shape)
