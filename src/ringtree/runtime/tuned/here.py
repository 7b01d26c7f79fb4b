"""The path of this machine's file, and its contents; a rank without such a file loads nothing for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ringtree.runtime import tuned

if TYPE_CHECKING:
    from ringtree.price.memory.parameters import CostParameters
    from ringtree.runtime.tuned.reading import Tuned

VARIABLE = "RINGTREE_TOPOLOGY"

_warned = set[str]()


def location(env: Mapping[str, str] | None = None) -> str:
    """The file's path, whether it exists or not."""
    env = os.environ if env is None else env
    if named := env.get(VARIABLE):
        return named
    folder = env.get("XDG_CONFIG_HOME") or os.path.join(env.get("HOME") or os.path.expanduser("~"), ".config")
    return os.path.join(folder, "ringtree", "machine.json")


def parameters_here(env: Mapping[str, str] | None = None) -> CostParameters | None:
    """The cost parameters of this machine's file; None where there is none."""
    found = tuned_here(env)
    return None if found is None else found.parameters


def tuned_here(env: Mapping[str, str] | None = None) -> Tuned | None:
    """This machine's file; None where there is none. A file that is of no use is reported once, in a line."""
    env = os.environ if env is None else env
    path = location(env)
    if not env.get(VARIABLE) and not os.path.exists(path):
        return None
    try:
        return tuned.read(path)
    except ValueError as error:
        if path not in _warned:
            _warned.add(path)
            remedy = "built-in cost parameters are used, and `ringtree tune` measures this machine"
            why = "".join(c if c.isprintable() else "?" for c in str(error))
            print(f"ringtree: {why}; {remedy}", file=sys.stderr, flush=True)
        return None
