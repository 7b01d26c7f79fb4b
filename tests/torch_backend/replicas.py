"""A replica of a model that torchft trains: others may come and go meanwhile.

python -m tests.torch_backend.replicas FOLDER REPLICA REPLICAS ADDRESS BACKEND [VICTIM]: ADDRESS is this host's.
Replica 0 serves torchft's lighthouse. Training goes on for STEPS, and until all replicas take part in one; replica
VICTIM is killed once, after such a step. Each replica writes its steps (number, replicas, its error or "") and its
parameters.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torchft
from torch.nn.functional import mse_loss

from tests.torch_backend import elastic
from tests.waiting import until

STEPS = 6
LIMIT = timedelta(seconds=60)


def group(backend: str) -> Any:
    if backend == "gloo":
        return torchft.ProcessGroupGloo(timeout=LIMIT)
    from ringtree.torch_backend.torchft import ProcessGroupRingtree

    return ProcessGroupRingtree(timeout=LIMIT)


def lighthouse(file: Path, replica: int, address: str) -> tuple[Any, str]:
    """The server, where it is this replica's, and its address."""
    served = None
    if replica == 0:
        from torchft.coordination import LighthouseServer

        served = LighthouseServer(bind="[::]:0", min_replicas=1, join_timeout_ms=500, heartbeat_timeout_ms=1000)
        written = file.with_suffix(".written")
        written.write_text(f"http://{address}:{served.address().rpartition(':')[2]}")
        written.rename(file)
    until(file.exists)
    return served, file.read_text()


def train(manager: Any, model: torch.nn.Module) -> tuple[int, int, str]:
    """One step, which changes the parameters where all took part in it."""
    step, rank, size = manager.current_step(), manager.participating_rank(), manager.num_participants()
    x = elastic.rows(step, rank, size)
    model.zero_grad()
    mse_loss(model(x), x).backward()
    for parameter in model.parameters():
        manager.allreduce(parameter.grad).wait()
    failed = str(manager.errored() or "")
    if manager.should_commit():
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
    return step, size, failed


def main(folder: Path, replica: int, replicas: int, address: str, backend: str, victim: int = -1) -> None:
    socket.gethostname = lambda: address  # torchft announces it, and a lab's hosts are in no table of names
    _server, found = lighthouse(folder / "lighthouse", replica, address)
    store, model = dist.TCPStore(address, 0, is_master=True, wait_for_workers=False), elastic.model()
    manager = torchft.Manager(
        pg=group(backend),
        load_state_dict=model.load_state_dict,
        state_dict=lambda: {name: value.clone() for name, value in model.state_dict().items()},
        min_replica_size=1,
        use_async_quorum=False,
        timeout=LIMIT,
        rank=0,
        world_size=1,
        store_addr=address,
        store_port=store.port,
        lighthouse_addr=found,
        replica_id=f"replica {replica}",
        hostname=address,
    )
    steps: list[tuple[int, int, str]] = []
    back = replica == victim and (folder / "killed").exists()

    def all_took_part() -> bool:
        return bool(steps) and steps[-1][1:] == (replicas, "")

    def lost_one() -> bool:
        return any(f": rank {victim} " in failed for *_, failed in steps)

    while manager.current_step() < STEPS or not all_took_part() or not (victim < 0 or back or lost_one()):
        manager.start_quorum()
        if replica == victim and not back and all_took_part():
            (folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        steps.append(train(manager, model))
        time.sleep(0.05)  # a replica that comes back is not to find the work done a thousand times
    torch.save((steps, manager.current_step(), model.state_dict()), folder / f"{replica}.pt")
    manager.shutdown(wait=False)
    os._exit(0)  # torchft's threads may outlive it


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:6], *map(int, sys.argv[6:]))
