"""What NCCL and RCCL say of themselves under NCCL_DEBUG=INFO, as far as it tells which way the data goes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field


@dataclass(slots=True)
class Said:
    """How often something was said, and the first time: the words, and the line of the file."""

    times: int
    text: str
    line: int


_HCA = re.compile(r"\[\d+\](\w[\w.-]*):\d+")
_ADDRESS = re.compile(r"\[\d+\]([\w.-]+):")
_ENVIRONMENT = re.compile(r"\b((?:NCCL|RCCL)_[A-Z0-9_]{1,60}) set (?:by environment )?to (\S{1,200})")
_COMM = re.compile(r"\bnranks (\d{1,7})\b", re.IGNORECASE)
_NODES = re.compile(r"\bnNodes (\d{1,7})\b")
_RING = re.compile(r"\bChannel (\d+)/(\d+) ?: +\d+( +\d+)*")
_SIGNS = {
    "p2p": re.compile(r"\bvia (P2P/(?!indirect)|direct (shared )?pointer)"),
    "p2p_indirect": re.compile(r"\bvia P2P/indirect"),
    "shm": re.compile(r"\bvia (SHM|direct shared memory)"),
    "socket": re.compile(r"\bvia NET/Socket"),
    "gdrdma": re.compile(r"\bvia NET/\S+/GDRDMA"),
    "staged": re.compile(r"\bvia NET/(?!Socket)(?!\S*GDRDMA)\S+"),
    "using_socket": re.compile(r"\bUsing network Socket"),
    "using_other": re.compile(r"\bUsing network (?!Socket)\S"),
    "no_ib": re.compile(r"NET/IB : No device found"),
    "gdr_disabled": re.compile(r"GPU Direct RDMA Disabled|GDRDMA (is )?(disabled|not (available|supported))", re.I),
    "gdr_enabled": re.compile(r"GPU Direct RDMA( \(\S+\))? (Enabled|enabled)"),
    "p2p_disabled": re.compile(r"P2P is disabled between|Could not enable P2P|isAllDirectP2p 0\b|P2P.{0,40}not supp"),
}
"""By what they are a sign of; the first group of words NCCL has had for it, then later ones."""


@dataclass(slots=True)
class Debug:
    """All that was said. `hcas` and `interfaces`: InfiniBand devices and sockets that NCCL uses, by name; `environment`
    what it was told; `channels` of its rings."""

    signs: dict[str, Said] = field(default_factory=dict)
    hcas: tuple[str, ...] = ()
    interfaces: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    ranks: int = 0
    nodes: int = 0
    channels: int = 0

    def __bool__(self) -> bool:
        return bool(self.signs or self.environment or self.ranks or self.hcas)

    def times(self, sign: str) -> int:
        """How often."""
        return self.signs[sign].times if sign in self.signs else 0

    def hear(self, text: str, line: int) -> None:
        """One line of the log."""
        if "NCCL" not in text and "RCCL" not in text:
            return
        for sign, pattern in _SIGNS.items():
            if pattern.search(text):
                said = self.signs.setdefault(sign, Said(0, _words(text), line))
                said.times += 1
        if "NET/IB : Using" in text and not self.hcas:
            self.hcas = tuple(dict.fromkeys(_HCA.findall(text)))
        if "NET/Socket : Using" in text and not self.interfaces:
            self.interfaces = tuple(dict.fromkeys(_ADDRESS.findall(text)))
        if (told := _ENVIRONMENT.search(text)) and len(self.environment) < 256:
            self.environment.setdefault(told[1], told[2].rstrip("."))
        if comm := _COMM.search(text):
            self.ranks = max(self.ranks, int(comm[1]))
        if nodes := _NODES.search(text):
            self.nodes = max(self.nodes, int(nodes[1]))
        if ring := _RING.search(text):
            self.channels = max(self.channels, int(ring[2]))


def _words(text: str) -> str:
    """What NCCL said, without who said it and when."""
    return text.partition("NCCL INFO")[2].strip()[:160] or text.strip()[:160]
