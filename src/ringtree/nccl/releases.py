"""Releases of NCCL: how they are written, and what the model knows to differ between them.

Source: the tags of NVIDIA/nccl: ncclAlgoStr for the algorithms, ncclTopoGetNchannels for the channels of a peer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

MODELLED = (2, 30)
"""The release that the model follows, and takes where none is known."""
OLDEST = (2, 4)
"""The first release with trees."""
FIRST: Mapping[str, tuple[int, int]] = MappingProxyType({"nvls": (2, 17), "nvls_tree": (2, 18), "pat": (2, 23)})
"""The first release with an algorithm, of those that some modelled release lacks."""
CHANNELS_BY_NICS, CHANNELS_BY_RATE = (2, 20), (2, 29)
"""The first releases in which a peer of another machine has a channel for each of the GPU's NICs, and as many as their
rate needs; before, it has two."""
BEFORE_RATE = (2, 28)
"""The last release before CHANNELS_BY_RATE."""
_RELEASE = re.compile(r"(\d{1,2})\.(\d{1,2})(?:\.\d{1,3})?(?:[-+][\w.+-]*)?")


def release(text: str) -> tuple[int, int]:
    """The release of `2.27`, `2.27.7`, `2.27.7-1` or `2.18.5+cuda12.2`. ValueError: it is none that is modelled."""
    found = _RELEASE.fullmatch(text)
    if found is None:
        raise ValueError(f"NCCL {text!r}: expected a release such as 2.27 or 2.27.7")
    named = int(found[1]), int(found[2])
    if named < OLDEST or named[0] != MODELLED[0]:
        raise ValueError(f"NCCL {text}: expected {words(OLDEST)} or later, of {MODELLED[0]}")
    return named


def of_number(number: int) -> tuple[int, int] | None:
    """The release of NCCL_VERSION_CODE, as nccl-tests prints it (22707 for 2.27.7, 2804 for 2.8.4); None for none that
    is modelled."""
    most = 10_000 if number >= 10_000 else 1000
    return of_numbers(number // most, number % most // 100)


def of_numbers(major: int, minor: int) -> tuple[int, int] | None:
    """The release; None for none that is modelled."""
    return (major, minor) if (major, minor) >= OLDEST and major == MODELLED[0] else None


def named_as_modelled(named: tuple[int, int]) -> str:
    """`NCCL 2.27`; of a later release than the model's, also which one it is taken for."""
    return f"NCCL {words(named)}" + (f", taken for {words(MODELLED)}" if named > MODELLED else "")


def words(named: tuple[int, int]) -> str:
    """`2.27`."""
    return f"{named[0]}.{named[1]}"
