"""The file of this machine that `ringtree tune` writes: a topology, and the costs by which calls are planned.

RINGTREE_TOPOLOGY names it; else it is ringtree/machine.json in $XDG_CONFIG_HOME, ~/.config by default. Only rank 0
reads it and broadcasts its contents, so that files which differ cannot make ranks disagree. What reads it is loaded
where there is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringtree import late

if TYPE_CHECKING:
    from ringtree.runtime.tuned.here import VARIABLE, location, parameters_here, tuned_here
    from ringtree.runtime.tuned.reading import (
        VERSION,
        Tuned,
        as_json,
        is_tuned,
        network_as_json,
        network_from,
        parameters_from,
        read,
        this_machine,
    )

_NAMES = {
    "here": ("VARIABLE", "location", "parameters_here", "tuned_here"),
    "reading": (
        "VERSION",
        "Tuned",
        "as_json",
        "is_tuned",
        "network_as_json",
        "network_from",
        "parameters_from",
        "read",
        "this_machine",
    ),
}

__all__ = [
    "VARIABLE",
    "VERSION",
    "Tuned",
    "as_json",
    "is_tuned",
    "location",
    "network_as_json",
    "network_from",
    "parameters_from",
    "parameters_here",
    "read",
    "this_machine",
    "tuned_here",
]

__getattr__ = late.names(__name__, _NAMES)
