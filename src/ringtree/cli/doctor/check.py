"""A check of this host: its state, what was found, and the command that gets what is missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

from ringtree.machines.sysfs import Sysfs


class State(Enum):
    """A problem makes the command fail; a note is worth knowing and hinders nothing that was asked for."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Check:
    """A row. `remedies`: commands or settings, each of which helps by itself. `figures`: the numbers and names behind
    the words, with units in their names, as JSON can write them."""

    section: str
    name: str
    state: State
    found: str
    remedies: tuple[str, ...] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The row as JSON writes it."""
        words = {"section": self.section, "name": self.name, "state": self.state.value, "found": self.found}
        return {**words, "remedies": list(self.remedies), "figures": dict(self.figures)}


@dataclass(frozen=True)
class CheckedHost:
    """The host to check: the root of its files, and this process's environment."""

    root: Path = Path("/")
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    @cached_property
    def sysfs(self) -> Sysfs:
        """/sys and /proc below the root."""
        return Sysfs(self.root)


CheckFunction = Callable[[CheckedHost], Iterable[Check]]


def checked(host: CheckedHost, section: str, name: str, check: CheckFunction) -> list[Check]:
    """The rows of a check; where it fails, one row that says why."""
    try:
        return list(check(host))
    except Exception as error:  # noqa: BLE001  # the other rows are worth their while on any host
        why = " ".join(str(error).split()) or "no reason given"
        return [Check(section, name, State.NOTE, f"could not be checked: {type(error).__name__}: {why}")]


INSTALLERS = {
    "apt-get": "apt-get install {}",
    "dnf": "dnf install {}",
    "zypper": "zypper install {}",
    "apk": "apk add {}",
    "pacman": "pacman -S {}",
}
"""The command of each package manager."""


def install(packages: Mapping[str, str]) -> tuple[str, ...]:
    """The command that installs a package here, by its name for each package manager; none where no manager of the
    table is here."""
    for manager, command in INSTALLERS.items():
        if manager in packages and shutil.which(manager):
            return (command.format(packages[manager]),)
    return ()
