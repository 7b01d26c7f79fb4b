"""A fault of a cluster: the changed cluster, whose predicted times are those expected with it, and its evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ringtree.machines.clusters import Cluster
from ringtree.nccl.files.debug_log import Debug

HARDWARE, SOFTWARE = 1.35, 2.5
"""The factor between a measurement and a prediction that still fits: for links, and for copies by a kernel or a CPU,
which differ more between hosts."""
KERNEL = 16.0
"""The factor for the kernel's TCP: its prediction is an upper bound, with a core for each connection."""


@dataclass(frozen=True)
class Fault:
    """`cluster`: as it would be with the fault. A measurement fits its prediction by a factor of `within`, or of
    `slower` where the measurement is slower. `excluded`: algorithms that NCCL would not take; `protocol`: the only one
    it would. Faults of one `key` are variants. `signs`: lines that NCCL prints with the fault (debug_log); `unless`:
    lines that it prints without it; `settings`: variables that cause it. `check`: a command that confirms it; `remedy`:
    its repair."""

    key: str
    what: str
    cluster: Cluster
    within: float
    check: str
    remedy: str
    slower: float = 0.0
    signs: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    settings: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    excluded: tuple[str, ...] = ()
    protocol: str | None = None

    def evidence_for(self, debug: Debug) -> tuple[str, ...]:
        """The log's evidence for the fault, one text each."""
        out = [
            f"{name}={debug.environment[name]} was set"
            for name, values in self.settings.items()
            if debug.environment.get(name, "").lower() in values
        ]
        if not any(debug.times(sign) for sign in self.unless):
            out += [_quoted(debug, sign) for sign in self.signs if debug.times(sign)]
        if self._counts_nics and len(debug.hcas) == self._nics:
            out.append(f"NCCL uses {', '.join(debug.hcas)} and no other port")
        return tuple(out)

    def evidence_against(self, debug: Debug) -> tuple[str, ...]:
        """The log's evidence against the fault, one text each; empty where there is evidence for it."""
        if self.evidence_for(debug):
            return ()
        out = [_quoted(debug, sign) for sign in self.unless if debug.times(sign)]
        if self._counts_nics and len(debug.hcas) > self._nics:
            out.append(f"NCCL uses {len(debug.hcas)} ports: {', '.join(debug.hcas)}")
        return tuple(out)

    @property
    def _counts_nics(self) -> bool:
        return self.key == "rails"

    @property
    def _nics(self) -> int:
        return len(self.cluster.machine.nics)


def _quoted(debug: Debug, sign: str) -> str:
    seen = debug.signs[sign]
    return (
        f"line {seen.line}, the first of {seen.times} alike: {seen.text}"
        if seen.times > 1
        else f"line {seen.line}: {seen.text}"
    )
