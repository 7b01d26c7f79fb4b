"""Settings of ringtree on this host: the file of `ringtree tune`, and the environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

import ringtree
from ringtree.cli.doctor.check import Check, CheckedHost, State
from ringtree.ir.units import bandwidth, duration
from ringtree.runtime import tuned
from ringtree.runtime.bootstrap.environment import ADDRESS, FILE, JOBS_OWN, SECRET, launched, rendezvous_address
from ringtree.runtime.bootstrap.interfaces import chosen_interface
from ringtree.runtime.engines.wires import chosen
from ringtree.runtime.engines.wires.tcp import connections
from ringtree.runtime.world import patience

SECTION = "settings"
PREFIX = "RINGTREE_"
NAMES = (
    "ADDRESS", "ALGORITHM", "CONNECTIONS", "DEBUG", "INTERFACE", "JOB", "RANK", "REPLACES", "SECRET", "TIMEOUT",
    "TOPOLOGY", "TRACE_FOLDER", "UCX_LIBRARY", "WIRE", "WORLD_SIZE",
)  # fmt: skip
"""The variables that a program of ringtree reads, without their prefix."""
OF_DEVELOPMENT = (
    "BASE_KERNELS_ONLY", "BROWSER_REQUIRED", "BUILD", "DATA", "EXAMPLES", "INDEPENDENT", "ISA", "MPI", "MPI4PY",
    "PEERS", "TORCH_REQUIRED", "TRAIN_ERRORS",
)  # fmt: skip
"""The variables that only its build, its tests and its own processes read."""
SECRETS = (SECRET,)
RULES: dict[str, Callable[[Mapping[str, str]], object]] = {
    ADDRESS: rendezvous_address,
    "RINGTREE_CONNECTIONS": lambda env: connections(),
    "RINGTREE_INTERFACE": chosen_interface,
    "RINGTREE_TIMEOUT": lambda env: patience(None),
    "RINGTREE_WIRE": chosen,
}
"""Functions that read a variable, and raise ValueError for a value that is none."""


def tune(host: CheckedHost) -> Iterator[Check]:
    """The file of `ringtree tune`, and whether it is of this machine and version."""
    path = tuned.location(host.env)
    figures: dict[str, Any] = dict.fromkeys(("date", "ringtree", "latency_s", "bandwidth_Bps"))
    figures["file"] = str(path)
    if not path.exists():
        named = f"{tuned.VARIABLE} names {path}, which does not exist" if tuned.VARIABLE in host.env else f"no {path}"
        words = f"never run here ({named}): calls are planned by built-in costs"
        yield Check(SECTION, "tune", State.NOTE, words, ("ringtree tune",), figures)
        return
    try:
        found = tuned.read(path)
    except (OSError, ValueError) as error:
        words = f"of no use, built-in costs are taken: {error}"
        yield Check(SECTION, "tune", State.NOTE, words, ("ringtree tune",), figures)
        return
    figures |= {"date": found.date, "ringtree": found.ringtree}
    words = f"{path} of {found.date}"
    if found.network is not None:
        figures |= {"latency_s": found.network.latency_s, "bandwidth_Bps": found.network.bandwidth_Bps}
        latency, rate = duration(found.network.latency_s), bandwidth(found.network.bandwidth_Bps)
        words += f"; between hosts {latency} and {rate}"
    if found.ringtree != ringtree.__version__:
        words = f"stale: {words}, by ringtree {found.ringtree}; this is {ringtree.__version__}"
        yield Check(SECTION, "tune", State.NOTE, words, ("ringtree tune",), figures)
    else:
        yield Check(SECTION, "tune", State.OK, words, (), figures)


def variables(host: CheckedHost) -> Iterator[Check]:
    """The variables RINGTREE_* that are set, but for those of the launcher: their values, and those that nothing
    reads."""
    hidden = JOBS_OWN if launched(host.env) else ()
    there = sorted(name for name in host.env if name.startswith(PREFIX) and name not in hidden)
    known = [PREFIX + name for name in (*NAMES, *OF_DEVELOPMENT)]
    if not there:
        yield Check(SECTION, "variables", State.OK, f"no {PREFIX}* is set")
    for name in there:
        value = "set" if name in SECRETS else repr(host.env[name])
        figures = {"known": name in known, "value": None if name in SECRETS else host.env[name]}
        if name not in known:
            near = get_close_matches(name, known, 1, 0.75)
            words = f"{value}: nothing reads it" + (f"; is it {near[0]}?" if near else "")
            remedies = (f'export {near[0]}="${name}"; unset {name}',) if near else (f"unset {name}",)
            yield Check(SECTION, name, State.NOTE, words, remedies, {**figures, "nearest": near[0] if near else None})
        elif why := _wrong(name, host.env):
            yield Check(SECTION, name, State.PROBLEM, why, (f"unset {name}",), figures)
        else:
            yield Check(SECTION, name, State.OK, value, (), figures)
    given = host.env.get(ADDRESS, "")
    if given and not given.startswith(FILE) and not host.env.get(SECRET):
        words = f"not set beside {ADDRESS}: whoever reaches rank 0's port may join"
        yield Check(SECTION, SECRET, State.NOTE, words, (f"export {SECRET}=$(openssl rand -hex 16)",))


def _wrong(name: str, env: Mapping[str, str]) -> str:
    """The reason why a value is none that ringtree takes; "" where it is one."""
    if name in RULES:
        try:
            RULES[name](env)
        except ValueError as error:
            return str(error)
    return ""
