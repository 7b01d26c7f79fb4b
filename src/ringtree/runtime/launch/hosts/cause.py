"""The reason, in words, for which a host's agent is not there, or no longer."""

from __future__ import annotations

from collections.abc import Sequence

import ringtree
from ringtree.runtime.launch.hosts.link import AgentLink
from ringtree.runtime.launch.hosts.placement import HostRanks
from ringtree.runtime.launch.job import ending

SSH_FAILED = 255
"""The exit code of ssh's own errors."""
NO_PROGRAM = (126, 127)
"""A shell's exit codes for a program that is not there, or cannot be run."""


def cause(link: AgentLink) -> str:
    """The cause of a link's end."""
    last = f": {link.complaints[-1]}" if link.complaints else ""
    if link.greeted:
        return f"lost its agent, which {ending(link.code)}{last}"
    return not_started(link.host, link.code, link.complaints, "started no agent")


def not_started(host: HostRanks, code: int, complaints: Sequence[str], otherwise: str) -> str:
    """The reason for which a host has not begun what it was asked for, by the command's exit code and the lines of its
    standard error; `otherwise`: the words for an end that explains nothing."""
    last = f": {complaints[-1]}" if complaints else ""
    if "No module named" in last:
        return (
            f"has no ringtree {ringtree.__version__} for its python{last}; install it there, or name another --python"
        )
    if code in NO_PROGRAM:
        return f"has no such python{last}; name its path by --python"
    if code == SSH_FAILED and not host.local:
        return f"is out of ssh's reach{last}; expected a connection that asks no questions"
    return f"{otherwise}: the command {ending(code)}{last}"


def contradiction(greeting: dict[str, str]) -> str:
    """The reason for which an agent's ringtree does not fit this one; "" where it does."""
    theirs, ours = greeting["version"], ringtree.__version__
    return "" if theirs == ours else f"has ringtree {theirs}, and here is {ours}; expected the same version everywhere"
