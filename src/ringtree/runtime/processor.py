"""What tells one machine's measurements from another's: the processor, and how many cores are on line."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def cpu(root: Path = Path("/")) -> str:
    """The processor's name, as Linux tells below `root`; elsewhere what Python itself knows."""
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
    """All that are on line, also those that this process may not use: its ranks may be pinned apart."""
    return os.cpu_count() or 1
