"""The end of every program: rank 0 writes what it has found, and who served."""

import json
import os
import time
from typing import Any

import torch.distributed as dist

BEGAN_S = time.perf_counter()


def report(**found: Any) -> None:
    """Writes the findings of rank 0. All ranks call it."""
    write(**found)
    dist.barrier()


def write(**found: Any) -> None:
    """Writes the findings of rank 0, and the package that serves the default group, to the file CLIENT_RESULT."""
    serving, _, _ = type(dist.group.WORLD).__module__.partition(".")
    if dist.get_rank() == 0:
        with open(os.environ["CLIENT_RESULT"], "w", encoding="utf-8") as file:
            json.dump(found | {"serving": serving, "took_s": time.perf_counter() - BEGAN_S}, file)
