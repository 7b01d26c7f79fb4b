"""Settings of ringtree on this host: the file of `ringtree tune`, and the environment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ringtree
from ringtree.cli.doctor.check import Check, CheckedHost, State
from ringtree.ir.units import bandwidth, duration
from ringtree.runtime import settings, tuned
from ringtree.runtime.bootstrap.environment import ADDRESS, FILE, JOBS_OWN, SECRET, launched

SECTION = "settings"
SECRETS = (SECRET,)


def tune(host: CheckedHost) -> Iterator[Check]:
    """The file of `ringtree tune`, and whether it is of this machine and version."""
    path = Path(tuned.location(host.env))
    figures: dict[str, Any] = dict.fromkeys(("date", "ringtree", "latency_s", "bandwidth_Bps"))
    figures["file"] = str(path)
    if not path.exists():
        named = f"{tuned.VARIABLE} names {path}, which does not exist" if tuned.VARIABLE in host.env else f"no {path}"
        words = f"never run here ({named}): calls are planned by built-in costs"
        yield Check(SECTION, "tune", State.NOTE, words, ("ringtree tune",), figures)
        return
    try:
        found = tuned.read(path)
    except ValueError as error:
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
    there = sorted(name for name in host.env if name.startswith(settings.PREFIX) and name not in hidden)
    if not there:
        yield Check(SECTION, "variables", State.OK, f"no {settings.PREFIX}* is set")
    for name in there:
        value = "set" if name in SECRETS else repr(host.env[name])
        figures = {"known": name in settings.KNOWN, "value": None if name in SECRETS else host.env[name]}
        if name not in settings.KNOWN:
            near = settings.nearest(name)
            words = f"{value}: nothing reads it" + (f"; is it {near}?" if near else "")
            remedies = (f'export {near}="${name}"; unset {name}',) if near else (f"unset {name}",)
            yield Check(SECTION, name, State.NOTE, words, remedies, {**figures, "nearest": near})
        elif why := settings.wrong(name, host.env):
            yield Check(SECTION, name, State.PROBLEM, why, (f"unset {name}",), figures)
        else:
            yield Check(SECTION, name, State.OK, value, (), figures)
    given = host.env.get(ADDRESS, "")
    if given and not given.startswith(FILE) and not host.env.get(SECRET):
        words = f"not set beside {ADDRESS}: whoever reaches rank 0's port may join"
        yield Check(SECTION, SECRET, State.NOTE, words, (f"export {SECRET}=$(openssl rand -hex 16)",))
