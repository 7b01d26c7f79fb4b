"""One rank of faults_of_peers.py: `PEER FAULT CULPRIT COUNT FOLDER`. Calls all_reduce, or broadcast for the fault
`root`, in a loop, and writes what comes to it as lines of JSON into FOLDER/RANK. Knows nothing of ringtree unless that
is the peer.

Every result is checked; operands change from call to call, so that memory of an earlier call does not pass. Call AT is
the one that the culprit makes differently, or before which it ends.
"""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

AT, CALLS = 100, 200
TIMEOUT_S = 5.0
"""Of the peers that have one: Gloo and ringtree."""


class Ringtree:
    def __init__(self) -> None:
        import ringtree

        self.comm = ringtree.init(timeout_s=TIMEOUT_S)
        self.rank, self.size = self.comm.rank, self.comm.size

    def all_reduce(self, x: Any) -> Any:
        return self.comm.all_reduce(x)

    def broadcast(self, x: Any, root: int) -> Any:
        return self.comm.broadcast(x, root)

    def after(self, error: BaseException) -> str:
        return ""

    def end(self) -> None:
        self.comm.close()


class Gloo:
    def __init__(self) -> None:
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        dist.init_process_group("gloo", timeout=timedelta(seconds=TIMEOUT_S))
        self.torch, self.dist, self.rank, self.size = torch, dist, dist.get_rank(), dist.get_world_size()

    def all_reduce(self, x: Any) -> Any:
        out = self.torch.from_numpy(x.copy())
        self.dist.all_reduce(out)
        return out.numpy()

    def broadcast(self, x: Any, root: int) -> Any:
        self.dist.broadcast(self.torch.from_numpy(x), root)
        return x

    def after(self, error: BaseException) -> str:
        return ""

    def end(self) -> None:
        self.dist.destroy_process_group()


class Mpi:
    """With mpi4py's error handler, which raises. `revokes`: as programs do that go on after a failure by ULFM."""

    def __init__(self, revokes: bool) -> None:
        from mpi4py import MPI

        self.mpi, self.comm, self.revokes = MPI, MPI.COMM_WORLD.Dup(), revokes
        self.rank, self.size = self.comm.rank, self.comm.size

    def all_reduce(self, x: Any) -> Any:
        out = np.empty_like(x)
        self.comm.Allreduce(x, out)
        return out

    def broadcast(self, x: Any, root: int) -> Any:
        self.comm.Bcast(x, root)
        return x

    def after(self, error: BaseException) -> str:
        """Lets the other ranks know, and asks who has failed."""
        if not self.revokes:
            return ""
        self.comm.Revoke()
        failed = self.comm.Get_failed()
        ranks = failed.Translate_ranks(None, self.comm.Get_group()) if failed.size else []
        return f"; failed: {', '.join(f'rank {rank}' for rank in ranks) or 'nobody'}"

    def end(self) -> None:
        self.mpi.Finalize()


def made(peer: str) -> Any:
    if peer == "ringtree":
        return Ringtree()
    return Gloo() if peer.startswith("gloo") else Mpi("ulfm" in peer)


def deviating(peer: Any, fault: str, x: Any) -> None:
    """The culprit's call AT."""
    if fault == "size":
        peer.all_reduce(x[: x.size // 2])
    elif fault == "type":
        peer.all_reduce(x.astype(np.int32))
    elif fault == "operation":
        peer.broadcast(x, 0)
    elif fault == "root":
        peer.broadcast(x, 1)


class Diary:
    """What came to a rank, with the time of day: hosts of a lab have other monotonic clocks."""

    def __init__(self, folder: str, rank: int) -> None:
        self.file = Path(folder) / str(rank)
        self.note("started", pid=os.getpid())

    def note(self, event: str, **more: Any) -> None:
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"event": event, "at": time.time(), **more}) + "\n")


def loop(peer: Any, fault: str, culprit: bool, count: int, diary: Diary) -> None:
    """The calls. Those of a fault that comes from outside have no end."""
    outside = fault in ("kill", "stop", "link down")
    call, wrong = 0, 0
    while outside or call < CALLS:
        x = np.full(count, peer.rank + 1 + call % 7, np.float32)
        if call == AT:
            diary.note("fault" if culprit and not outside else "at")
            if culprit and fault == "exit":
                return
        if culprit and call == AT and not outside:
            deviating(peer, fault, x)
        elif fault == "root":
            wrong += bool((peer.broadcast(x, 0) != 1 + call % 7).any())
        else:
            expected = peer.size * (peer.size + 1) // 2 + peer.size * (call % 7)
            wrong += bool((peer.all_reduce(x) != expected).any())
        if call == AT:
            diary.note("returned", wrong=bool(wrong))
        call += 1
    diary.note("all returned", wrong=wrong)


def main() -> None:
    name, fault, culprit, count, folder = sys.argv[1:]
    peer = made(name)
    diary = Diary(folder, peer.rank)
    try:
        loop(peer, fault, peer.rank == int(culprit), int(count), diary)
        peer.end()
        diary.note("ended")
    except BaseException as error:
        diary.note("raised", type=type(error).__name__, text=f"{error}")
        diary.note("asked", text=peer.after(error))
        raise


if __name__ == "__main__":
    main()
