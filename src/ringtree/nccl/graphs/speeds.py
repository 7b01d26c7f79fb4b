"""The speeds NCCL tries for a channel, fastest first, by the GPUs' compute capability. In MB/s.

Source: NVIDIA/nccl 2.30.7 and ROCm/rccl 2.21, src/graph/search.cc.
"""

from __future__ import annotations

INSIDE = (40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3)
ACROSS = (48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12)
HOPPER_INSIDE = (60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3)
HOPPER_ACROSS = (48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12)
BLACKWELL_INSIDE = (90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18)
BLACKWELL_ACROSS = (96, 86, 80, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12)
RCCL = (48, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12)
"""AMD's, within a machine and between."""
LADDERS = ((100, BLACKWELL_INSIDE, BLACKWELL_ACROSS), (90, HOPPER_INSIDE, HOPPER_ACROSS), (0, INSIDE, ACROSS))
"""From which compute capability (times 10), within a machine, between machines. In GB/s, as NCCL prints them."""


def ladder(sm: int, across: bool, rccl: bool) -> tuple[int, ...]:
    """The speeds to try, in MB/s."""
    inside, between = (RCCL, RCCL) if rccl else next((i, a) for least, i, a in LADDERS if sm >= least)
    return tuple(round(GBps * 1000) for GBps in (between if across else inside))
