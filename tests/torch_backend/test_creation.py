"""Groups are made through the store, whatever it holds, and whichever ranks do not come."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ringtree.runtime.bootstrap.network.contact import Contact
from tests.torch_backend.conftest import Worlds

HERE = Path(__file__)


def _store(kind: str, where: str) -> Any:
    """A store beside the default group's, the same for all ranks."""
    import torch.distributed as dist

    if kind == "file":
        return dist.FileStore(where, dist.get_world_size())
    return dist.TCPStore(
        "localhost", int(where), dist.get_world_size(), dist.get_rank() == 0, wait_for_workers=False, use_libuv=False
    )


def _join(store: Any, timeout_s: float = 20.0, ranks: tuple[int, ...] | None = None) -> Any:
    """This rank's communicator in a group of all, or of some, that is made through `store` alone."""
    import torch.distributed as dist

    from ringtree.torch_backend.creation import join

    ranks = ranks or tuple(range(dist.get_world_size()))
    return join(store, ranks.index(dist.get_rank()), ranks, timeout_s)


def _outcome(store: Any, timeout_s: float) -> str:
    try:
        with _join(store, timeout_s) as made:
            return str(made.all_reduce(1.0))
    except Exception as error:  # noqa: BLE001  # the test looks at it
        return f"{type(error).__name__}: {error}"


def _free_port() -> str:
    with socket.create_server(("localhost", 0)) as server:
        return str(server.getsockname()[1])


def _one_after_another(kind: str, where: str) -> list[float]:
    store = _store(kind, where)
    sums = []
    for _ in range(10):
        with _join(store) as made:
            sums.append(float(made.all_reduce(made.rank + 1.0)))
    return sums


@pytest.mark.parametrize("kind", ["file", "tcp"])
def test_one_store_serves_one_group_after_another(worlds: Worlds, tmp_path: Path, kind: str) -> None:
    where = str(tmp_path / "store") if kind == "file" else _free_port()
    assert worlds(3).run(_one_after_another, kind, where) == [[6.0] * 10] * 3


def _absent(folder: str, absent: int, late_s: float | None) -> list[str]:
    """Every rank's outcomes where one is absent or late, and of a second attempt with that store."""
    import torch.distributed as dist

    store = _store("file", folder + "/store")
    outcomes = []
    if dist.get_rank() != absent:
        outcomes.append(_outcome(store, 1.5))
    elif late_s is not None:
        time.sleep(late_s)
        outcomes.append(_outcome(store, 1.5))
    dist.barrier()
    outcomes.append(_outcome(store, 20))
    return outcomes


@pytest.mark.parametrize("absent", [0, 1, 2])
def test_an_absent_rank_is_named_and_may_come_later(worlds: Worlds, tmp_path: Path, absent: int) -> None:
    for rank, outcomes in enumerate(worlds(3).run(_absent, str(tmp_path), absent, None)):
        assert outcomes[-1] == "3.0"
        if rank != absent:
            assert outcomes[0].startswith(f"TimedOut: rank {absent} did not come to the group of 3 ranks within 1.5 s")


def test_late_ranks_are_waited_for(worlds: Worlds, tmp_path: Path) -> None:
    assert worlds(3).run(_absent, str(tmp_path), 0, 1.0) == [["3.0", "3.0"]] * 3


def _stale(folder: str, over_hosts: bool) -> list[str]:
    """The place of an earlier attempt is in the store, and the ranks that look for it come first."""
    import torch.distributed as dist

    from ringtree.torch_backend.announcing import Announced
    from ringtree.torch_backend.creation import _failed
    from ringtree.torch_backend.locality import Host

    store = _store("file", folder + "/store")
    if dist.get_rank() == 0:
        contact = Contact(("127.0.0.1",), 9, b"of nobody").text() if over_hosts else ""
        Announced("nobody's", Host("elsewhere", "another", "another"), over_hosts, contact).write(store)
        store.set(_failed("nobody's"), "of an earlier attempt")
    dist.barrier()
    if dist.get_rank() == 0:
        time.sleep(1.5)
    return [_outcome(store, 20)]


@pytest.mark.parametrize("over_hosts", [False, True])
def test_remains_of_an_earlier_attempt_are_not_joined(worlds: Worlds, tmp_path: Path, over_hosts: bool) -> None:
    assert worlds(3).run(_stale, str(tmp_path), over_hosts) == [["3.0"]] * 3


DIES = """
import os, sys, threading
from ringtree._native import BUILD
from ringtree.runtime.bootstrap.local.abstract_socket import ABSTRACT_SOCKET
from ringtree.runtime.bootstrap.bootstrap import BootstrapGroup
place = sys.argv[1]
threading.Timer(0.5, os._exit, [1]).start()
ABSTRACT_SOCKET.share(BootstrapGroup(place, 2, "0123", "the group of 4 ranks", 20, build=BUILD), 0, [])
"""


def _one_dies(folder: str) -> str:
    """Rank 2 dies while rank 3 is still waited for."""
    import json

    import torch.distributed as dist

    from ringtree.torch_backend.announcing import ANNOUNCED
    from ringtree.torch_backend.creation import join

    rank = dist.get_rank()
    store = _store("file", folder + "/store")
    if rank == 2:
        place = json.loads(store.get(ANNOUNCED))["key"]
        subprocess.run([sys.executable, "-c", DIES, place], check=False)
        return ""
    try:
        join(store, rank, range(4), 60)
    except Exception as error:  # noqa: BLE001  # the test looks at it
        return f"{type(error).__name__}: {error}"
    return "joined"


def test_a_rank_that_dies_while_it_joins_is_named(worlds: Worlds, tmp_path: Path) -> None:
    outcomes = worlds(3).run(_one_dies, str(tmp_path))
    assert outcomes == ["PeerDied: rank 2 ended while the group of 4 ranks was being set up"] * 2 + [""]
