"""Symmetric memory: arrays in memory that all ranks of a group share, so that peers read them where they lie."""

from __future__ import annotations

import math
import operator
import os
from bisect import bisect_right, insort
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_char
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ringtree.runtime.bootstrap.bootstrap import BootstrapGroup
from ringtree.runtime.bootstrap.local.shared_memory import reserve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringtree.runtime.engines.engine import GroupParameters
    from ringtree.runtime.engines.protocols import Endpoint

Window = tuple[int, int, int]
"""The addresses where an array begins and ends in this process, and its window's number."""

PAGE = 4096


def request(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    """The text of a rank's request, which must equal the others'."""
    return f"an array of shape {shape} of {dtype.name}"


def share_bytes(nbytes: int) -> int:
    """Bytes of the window that a rank's array of `nbytes` takes: whole pages, one at least."""
    return max(-(-nbytes // PAGE) * PAGE, PAGE)


def allocate(
    endpoint: Endpoint, parameters: GroupParameters, key: str, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> tuple[int, NDArray[Any]]:
    """The window's number, and this rank's array in it, zeroed; all ranks of the group ask for the same shape and type.

    The array holds on to the endpoint: its memory is mapped for as long as that lives, closed or not.
    """
    if any(length < 0 for length in shape):
        raise ValueError(f"an array of shape {shape}: expected lengths of at least 0")
    nbytes = math.prod(shape) * dtype.itemsize
    share = share_bytes(nbytes)
    subject = f"{request(shape, dtype)}, {parameters.ranks} times in shared memory"
    if parameters.ranks == 1:
        fd = reserve(share, subject)
    else:
        check_liveness = partial(endpoint.check_liveness, "empty", list(range(parameters.ranks)))
        group = BootstrapGroup(
            key, parameters.rank, parameters.names, subject, parameters.timeout_s, check_liveness, inherited=True
        )
        with _reporting_timeouts(endpoint, parameters.ranks):
            fd = _shared(parameters, group, share)
    window = address = 0
    failure = ""
    try:
        window, address = endpoint.add_window(fd, share)
    except OSError as error:
        failure = f"rank {parameters.names[parameters.rank]}: {error}"
    finally:
        os.close(fd)
    failures = [failure]
    if parameters.ranks > 1:  # others may write into it at once
        with _reporting_timeouts(endpoint, parameters.ranks):
            failures = parameters.bootstrap.exchange(group._replace(key=f"{key}/mapped"), failure)
    if any(failures):
        raise MemoryError(f"no room for {subject}: {next(filter(None, failures))}")
    memory: Any = (c_char * share).from_address(address)
    memory.endpoint = endpoint
    return window, np.frombuffer(memory, np.uint8)[:nbytes].view(dtype).reshape(shape)


def _shared(parameters: GroupParameters, group: BootstrapGroup, share: int) -> int:
    """A descriptor of the memory with all ranks' shares."""
    several = len(set(parameters.bootstrap.hosts(group))) > 1  # then each rank's part exists on its own host only
    whole = share * parameters.ranks
    fd, _ = parameters.bootstrap.share(group, whole, reserved=0, needed=share if several else whole)
    return fd


@contextmanager
def _reporting_timeouts(endpoint: Endpoint, ranks: int) -> Iterator[None]:
    """A wait for all ranks: where this one gives up, those whose waits end for it have that as the first cause."""
    try:
        yield
    except TimeoutError as late:
        raise TimeoutError(endpoint.give_up(str(late), list(range(ranks)))) from None


def insert(windows: list[Window], array: NDArray[Any], number: int) -> None:
    """Adds the window of an array, which keeps them in the order of their addresses."""
    begin = array.__array_interface__["data"][0]
    insort(windows, (begin, begin + array.nbytes, number))


def last_from(windows: list[Window], address: int) -> Window:
    """The last of the windows that begin at an address or before it; an empty one where there is none."""
    at = bisect_right(windows, address, key=operator.itemgetter(0)) - 1
    return windows[at] if at >= 0 else (0, 0, 0)
