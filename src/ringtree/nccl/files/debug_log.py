"""Reads the lines that NCCL and RCCL print under NCCL_DEBUG=INFO, as far as they show which path the data takes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ringtree.nccl import releases


@dataclass(slots=True)
class LogLine:
    """A kind of line: the number of times it occurs, and its first occurrence, as text and line number in the file."""

    times: int
    text: str
    line: int


_HCA = re.compile(r"\[\d+\](\w[\w.-]*):\d+")
_ADDRESS = re.compile(r"\[\d+\]([\w.-]+):")
_ENVIRONMENT = re.compile(r"\b((?:NCCL|RCCL)_[A-Z0-9_]{1,60}) set (?:by environment )?to (\S{1,200})")
_COMM = re.compile(r"anks (\d{1,7})\b")
_NODES = re.compile(r"nNodes (\d{1,7})\b")
_RELEASE = re.compile(r"\bNCCL version (\d{1,2})\.(\d{1,2})\.\d")
_LIBRARY = re.compile(r"\bnccl-library=(\d{4,6})\b")
"""In the first line of nccl-tests from 2.17 on."""
_RING = re.compile(r"Channel (\d+)/(\d+) ?: +\d+( +\d+)*")
_SIGNS = {
    "p2p": ("via ", re.compile(r"via (P2P/(?!indirect)|direct (shared )?pointer)")),
    "p2p_indirect": ("via P2P/", re.compile(r"via P2P/indirect")),
    "shm": ("via ", re.compile(r"via (SHM|direct shared memory)")),
    "socket": ("via NET/", re.compile(r"via NET/Socket")),
    "gdrdma": ("via NET/", re.compile(r"via NET/.*/GDRDMA")),
    "staged": ("via NET/", re.compile(r"via NET/(?!Socket)(?!.*/GDRDMA)\S")),
    "using_socket": ("Using network", re.compile(r"Using network Socket")),
    "using_other": ("Using network", re.compile(r"Using network (?!Socket)\S")),
    "no_ib": ("NET/IB", re.compile(r"NET/IB : No device found")),
    "no_nvls": ("NVLS", re.compile(r"NVLS multicast support is not available")),
    "gdr_disabled": ("GPU Direct RDMA", re.compile(r"GPU Direct RDMA Disabled")),
    "p2p_disabled": ("P2P", re.compile(r"P2P is disabled between|Could not enable P2P|isAllDirectP2p 0\b")),
}
"""Signs of a line: a substring that every such line has, which is quick to find, and the pattern. NCCL has changed its
words over time: the later ones come second. A plugin's name may have a space (AWS Libfabric)."""


@dataclass(slots=True)
class Debug:
    """Everything read from a log. `hcas` and `interfaces`: InfiniBand devices and sockets that NCCL uses, by name;
    `environment`: NCCL's variables; `channels`: number of rings; `release`: NCCL's, None where no line has it."""

    signs: dict[str, LogLine] = field(default_factory=dict)
    hcas: tuple[str, ...] = ()
    interfaces: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    ranks: int = 0
    nodes: int = 0
    channels: int = 0
    release: tuple[int, int] | None = None

    def __bool__(self) -> bool:
        return bool(self.signs or self.environment or self.ranks or self.hcas)

    def times(self, sign: str) -> int:
        """Number of lines with this sign."""
        return self.signs[sign].times if sign in self.signs else 0

    def read(self, text: str, line: int) -> None:
        """Takes up one line of the log."""
        if "nccl-library=" in text and (library := _LIBRARY.search(text)):
            self.release = releases.of_number(int(library[1]))
        if "NCCL" not in text and "RCCL" not in text:
            return
        for sign, (within, pattern) in _SIGNS.items():
            if within in text and pattern.search(text):
                if sign not in self.signs:
                    self.signs[sign] = LogLine(0, _words(text), line)
                self.signs[sign].times += 1
        if "NET/IB : Using" in text and not self.hcas:
            self.hcas = tuple(dict.fromkeys(_HCA.findall(text)))
        if "NET/Socket : Using" in text and not self.interfaces:
            self.interfaces = tuple(dict.fromkeys(_ADDRESS.findall(text)))
        if " set " in text and (setting := _ENVIRONMENT.search(text)) and len(self.environment) < 256:
            self.environment.setdefault(setting[1], setting[2].rstrip("."))
        if "NCCL version " in text and (found := _RELEASE.search(text)) and self.release is None:
            self.release = releases.of_numbers(int(found[1]), int(found[2]))
        if "anks " in text and (comm := _COMM.search(text)):
            self.ranks = max(self.ranks, int(comm[1]))
        if "nNodes " in text and (nodes := _NODES.search(text)):
            self.nodes = max(self.nodes, int(nodes[1]))
        if " :  " in text and (ring := _RING.search(text)):
            self.channels = max(self.channels, int(ring[2]))


def _words(text: str) -> str:
    """The line without host, process and time."""
    return text.partition("NCCL INFO")[2].strip()[:160] or text.strip()[:160]
