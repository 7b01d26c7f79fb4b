"""The ranks of `ringtree train`: started here, or by torchrun, mpirun or srun. The rank that
failed first reports its error; the ranks that the error reached do not."""

from __future__ import annotations

import argparse
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import ringtree
from ringtree.cli import one_line
from ringtree.runtime.bootstrap.environment import World, detect
from ringtree.runtime.bootstrap.network.interfaces import candidates
from ringtree.runtime.launch import launch
from ringtree.training import TrainingPlan

ERRORS = "RINGTREE_TRAIN_ERRORS"
"""The variable that names the folder in which the ranks that this command started leave their errors."""
QUIET = "TORCH_CPP_LOG_LEVEL", "FATAL"
"""The variable, and its value where the user has set none, by which torch's sockets do not log what this command
reports: a slow connection is an error to them. torch reads it as it is loaded."""
BROKEN_PIPE = 141
"""The exit code of a rank whose reader has gone, as `| head` does."""
WRAPPED = re.compile(r"error when running the callback: RuntimeError: (.*?) At: ")
"""The text in which DDP's C++ wraps an error of the backend's."""
TIMEOUT_S = 120.0
"""Default timeout of a call in seconds."""
CONNECTS_S = 5.0
"""Seconds in which an address of rank 0's store answers."""
REPORTS_S = 10.0
"""Seconds that rank 0 has to report an error of all ranks: torchrun and mpirun end it once another rank has failed."""
SESSION, ELASTIC = "ringtree.cli.train.session", "ringtree.cli.train.elastic_session"
"""The modules that train, which need torch: each rank loads one, the starting process does not."""


def run(plan: TrainingPlan, args: argparse.Namespace, words: Sequence[str]) -> int:
    """Trains as one rank of a launcher's, or starts the ranks. `words`: the options again."""
    os.environ.setdefault(*QUIET)
    world, ranks, timeout_s = detect(), plan.layout.ranks, args.timeout or TIMEOUT_S
    if args.elastic and world.launcher != "none" and ERRORS not in os.environ:
        raise ValueError(
            f"--elastic: {world.launcher} has started this rank; expected this command to start the ranks itself, on "
            "this machine"
        )
    if world.launcher == "none" and ranks > 1:
        return start(words, ranks, elastic=bool(args.elastic), restarts=args.max_restarts or 0)
    if args.elastic:
        folder = Path(os.environ[ERRORS])
        return _reported(lambda: import_module(ELASTIC).train(plan, args, folder, world.rank, timeout_s), world)
    return take_part(lambda: import_module(SESSION).train(plan, args), world, ranks, timeout_s)


def start(words: Sequence[str], ranks: int, *, elastic: bool, restarts: int) -> int:
    """Runs the command again as `ranks` ranks; rank 0 alone prints, in elastic training the one that is rank 0 then,
    behind its first number. Returns the exit code."""
    printed: list[str] = []
    with TemporaryDirectory(prefix="ringtree-train-") as folder:
        try:
            os.environ[ERRORS] = folder
            code = launch.run(
                ["ringtree.cli", "train", *words],
                ranks,
                module=True,
                speaker=None if elastic else 0,
                write=printed.append,
                elastic=elastic,
                restarts=restarts,
            )
        finally:
            del os.environ[ERRORS]
        messages = (_first_error(Path(folder)) if code else []) or printed
    if code != BROKEN_PIPE:
        for line in messages:
            print(f"ringtree train: {line}", file=sys.stderr)
    return code


def _first_error(folder: Path) -> list[str]:
    """Returns the message of the rank that failed first, with its number unless all messages are equal. Empty where no
    rank failed by itself: the launcher's message about a killed rank is better than the other ranks' messages."""
    reports = [file.read_text(encoding="utf-8").split("\n", 2) for file in sorted(folder.glob("[0-9]*"))]
    own = [(rank, text) for rank, kind, text in reports if kind == "own"]
    if not own:
        return []
    rank, text = own[0]
    every = len(own) > 1 and {t for _, t in own} == {text}
    return [text if every or text.startswith("rank ") else f"rank {rank}: {text}"]


def take_part(work: Callable[[], None], world: World, ranks: int, timeout_s: float) -> int:
    """Does `work` as one rank of a process group whose calls time out after `timeout_s`; returns the exit code.
    ValueError, on rank 0, where the launcher's number of ranks is not the layout's."""
    if world.size != ranks:
        alone = world.launcher == "torchrun" and "TORCHELASTIC_RUN_ID" not in os.environ  # variables that were left
        if world.rank and not alone:
            time.sleep(REPORTS_S)
            return 1
        raise ValueError(f"the layout is for {ranks} ranks, and {world.launcher} started {world.size}")

    def in_group() -> None:
        with _group(world, timedelta(seconds=timeout_s)):
            work()

    return _reported(in_group, world)


def _reported(work: Callable[[], None], world: World) -> int:
    """Does `work`, and reports its error; the exit code."""
    import torch.distributed as dist

    try:
        work()
    except BrokenPipeError:  # the reader of the output has gone
        raise
    except Exception as error:
        if os.environ.get("RINGTREE_DEBUG") == "trace":
            raise
        if "KeyboardInterrupt" in str(error):  # in a hook of autograd's, whose C++ makes a RuntimeError of it
            raise KeyboardInterrupt from None
        wrapped = WRAPPED.search(" ".join(str(error).split()))
        cause = dist.DistBackendError(wrapped[1]) if wrapped else error
        hung = "Timed out" in str(cause)  # a rank that hangs reports no error itself
        of_another = isinstance(cause, (dist.DistBackendError, ringtree.PeerDied, ringtree.Poisoned))
        _report(cause, world, of_another and not hung)
        return 1
    return 0


@contextmanager
def _group(world: World, timeout: timedelta) -> Iterator[None]:
    """The default process group while the block runs; after a failure one of several ranks is left as it is:
    destroying it would wait for the failed ranks."""
    import torch.distributed as dist

    if world.launcher == "torchrun":
        dist.init_process_group("ringtree", timeout=timeout)
    else:
        store = _store(world)
        dist.init_process_group("ringtree", store=store, rank=world.rank, world_size=world.size, timeout=timeout)
    try:
        yield
    except BaseException:
        if world.size == 1:
            dist.destroy_process_group()
        raise
    dist.destroy_process_group()


def _store(world: World) -> object:
    """A store of torch's on rank 0, whose addresses and port a broadcast gives to the others."""
    import torch.distributed as dist

    with ringtree.init() as comm:
        here = ["127.0.0.1"] if len(set(comm.hosts)) == 1 else candidates()
        master = dist.TCPStore(here[0], 0, is_master=True, wait_for_workers=False) if world.rank == 0 else None
        addresses, port = comm.broadcast_object((here, master.port) if master is not None else None)
        store = master or dist.TCPStore(_reached(addresses, port), port, is_master=False)
        comm.barrier()  # rank 0's server lives until all have come
        return store


def _reached(addresses: Sequence[str], port: int) -> str:
    """The first of rank 0's addresses that answers. ConnectionError where none does."""
    for address in addresses:
        with suppress(OSError), socket.create_connection((address, port), timeout=CONNECTS_S):
            return address
    raise ConnectionError(f"rank 0's store does not answer at {', '.join(addresses)}, port {port}")


def _report(error: Exception, world: World, of_another: bool) -> None:
    """Writes the error to the launcher's folder; without a launcher of ours, prints it once."""
    text = one_line(error)
    if folder := os.environ.get(ERRORS):
        kind = "others" if of_another else "own"
        Path(folder, f"{time.monotonic_ns():020}-{world.rank}").write_text(f"{world.rank}\n{kind}\n{text}")
    elif _is_first():
        whose = f"rank {world.rank}: " if world.size > 1 and not text.startswith("rank ") else ""
        print(f"ringtree train: {whose}{text}", file=sys.stderr, flush=True)


def _is_first() -> bool:
    """Whether no rank has reported an error yet; True where the store does not answer."""
    import torch.distributed as dist

    try:
        return bool(dist.distributed_c10d._get_default_store().add("ringtree/train/errors", 1) == 1)
    except (RuntimeError, ValueError):
        return True
