"""The processor and its online cores: measurements of one machine are not those of another."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def cpu(root: Path = Path("/")) -> str:
    """The processor's name, from Linux's files below `root`; elsewhere from Python."""
    try:
        with open(root / "proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:  # as far as the first core's: the file is written while it is read
                name, _, value = line.partition(":")
                if name.strip() == "model name":
                    return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def cores() -> int:
    """The number of online cores, also beyond this process's affinity: its ranks may be pinned apart."""
    return os.cpu_count() or 1
