"""Limits of this process (ulimit), as its kernel lists them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import inf

from ringtree.machines.sysfs import Sysfs

FILE = "proc/self/limits"


@dataclass(frozen=True, slots=True)
class ProcessLimit:
    """The limit that holds, and how far this process may raise it; inf where there is none."""

    soft: float
    hard: float


def process_limits(sysfs: Sysfs) -> dict[str, ProcessLimit]:
    """The limits by the kernel's names, such as "Max open files"; empty where they cannot be read."""
    found = {}
    for line in sysfs.text(FILE).splitlines():
        if match := re.match(r"(Max [a-z ]+?) {2,}(\d{1,20}|unlimited) +(\d{1,20}|unlimited)\b", line):
            found[match[1]] = ProcessLimit(_number(match[2]), _number(match[3]))
    return found


def _number(text: str) -> float:
    return inf if text == "unlimited" else float(text)
