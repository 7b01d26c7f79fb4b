"""The hosts of a job and the ranks of each, from a list or a hostfile."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ringtree.files.file_bytes import file_bytes
from ringtree.runtime.bootstrap.environment import MOST_RANKS
from ringtree.runtime.bootstrap.network.addresses import is_loopback
from ringtree.runtime.bootstrap.network.interfaces import interface_addresses

NAME = re.compile(r"[^\s,:\[\]\0-\x1f\x7f-][^\s,:\[\]\0-\x1f\x7f]*")
"""A host's name: without control characters, and it may not begin as an option does."""
ENTRY = re.compile(rf"(?P<name>{NAME.pattern}|\[(?P<v6>[0-9a-fA-F:.%\w]+)\])(?::(?P<slots>\d+))?")
LINE = re.compile(rf"(?P<name>{NAME.pattern}|(?P<v6>[0-9a-fA-F:.]+))\s+slots\s*=\s*(?P<slots>\d+)")
MOST_BYTES = 1 << 20
"""The most of a hostfile."""

Slots = tuple[str, int]
"""A host's name and its number of ranks."""


@dataclass(frozen=True, slots=True)
class HostRanks:
    """A host, by the name that it was given, and its ranks. `local`: it is this host."""

    name: str
    ranks: tuple[int, ...]
    local: bool


def hosts_of(text: str) -> list[Slots]:
    """The hosts of `a:4,b:4`, or of the hostfile of that path. ValueError names the entry that is none."""
    path = Path(text)
    # a list may be longer than a file's name, which Path.is_file() raises for, and a folder may be called as a host is
    if os.path.isfile(path) or ("/" in text and os.path.exists(path)):
        found = []
        text = file_bytes(path, "a hostfile", MOST_BYTES).decode("utf-8", "replace")
        for number, line in enumerate(text.splitlines(), 1):
            if entry := line.partition("#")[0].strip():
                found.append(_entry(entry, f"{path}, line {number}", ENTRY, LINE))
        if not found:
            raise ValueError(f"{path} names no host; expected lines as host:4 or host slots=4")
        return found
    if "/" in text:
        raise ValueError(f"no such hostfile: {text}")
    return [_entry(entry.strip(), "--hosts", ENTRY) for entry in text.split(",")]


def placed(entries: Sequence[Slots], ranks: int | None) -> list[HostRanks]:
    """Each host once, with its ranks: they fill the slots in the order of the entries. `ranks`: how many, if not as
    many as there are slots. ValueError where there are fewer slots, and for more ranks than a group has."""
    slots = sum(count for _, count in entries)
    ranks = slots if ranks is None else ranks
    if not 0 < ranks <= slots:
        raise ValueError(f"{ranks} ranks for {slots} slots of the hosts; expected at least 1, and slots for all (a:4)")
    if ranks > MOST_RANKS:
        raise ValueError(f"{ranks} ranks on the hosts; expected at most {MOST_RANKS}, the most of a group")
    here = {os.uname().nodename, *(one.address for one in interface_addresses())}
    names: dict[str, str] = {}
    found: dict[str, list[int]] = {}
    rank = 0
    for name, count in entries:
        key = "localhost" if name in here or is_loopback(name) else name
        taken = range(rank, min(rank + count, ranks))
        if taken:
            names.setdefault(key, name)
            found.setdefault(key, []).extend(taken)
        rank += len(taken)
    return [HostRanks(names[key], tuple(mine), key == "localhost") for key, mine in found.items()]


def _entry(text: str, where: str, *forms: re.Pattern[str]) -> Slots:
    for form in forms:
        if match := form.fullmatch(text):
            slots = int(match["slots"] or 1)
            if slots > 0:
                return match["v6"] or match["name"], slots
    kinds = "host:4 or [fd00::1]:4" + (", or host slots=4" if len(forms) > 1 else "")
    raise ValueError(f"{where}: {text!r} is no host; expected {kinds}")
