"""Groups are made through the store, whatever it holds, and whichever ranks do not come."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.torch_backend.conftest import Worlds

HERE = Path(__file__)


def _store(kind: str, where: str) -> Any:
    """A store beside the default group's, the same for all ranks."""
    import torch.distributed as dist

    if kind == "file":
        return dist.FileStore(where, dist.get_world_size())
    return dist.TCPStore("localhost", int(where), dist.get_world_size(), dist.get_rank() == 0, wait_for_workers=False)


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


def _stale(folder: str) -> list[str]:
    """The place of an earlier attempt is in the store, and the ranks that look for it come first."""
    import torch.distributed as dist

    from ringtree.torch_backend.creation import ANNOUNCED, _Announced, _failed
    from ringtree.torch_backend.locality import Host

    store = _store("file", folder + "/store")
    if dist.get_rank() == 0:
        import json
        from dataclasses import asdict

        store.set(ANNOUNCED, json.dumps(asdict(_Announced("nobody's", Host("elsewhere", "another", "another")))))
        store.set(_failed("nobody's"), json.dumps({"why": "of an earlier attempt", "reported": [1, 2]}))
    dist.barrier()
    if dist.get_rank() == 0:
        time.sleep(1.5)
    return [_outcome(store, 20)]


def test_remains_of_an_earlier_attempt_are_not_joined(worlds: Worlds, tmp_path: Path) -> None:
    assert worlds(3).run(_stale, str(tmp_path)) == [["3.0"]] * 3


DIES = """
import os, sys, threading
from ringtree._native import BUILD
from ringtree.runtime.bootstrap.abstract_socket import ABSTRACT_SOCKET
from ringtree.runtime.bootstrap.bootstrap import BootstrapGroup
place = sys.argv[1]
threading.Timer(0.5, os._exit, [1]).start()
ABSTRACT_SOCKET.share(BootstrapGroup(place, 2, "0123", "the group of 4 ranks", 20, build=BUILD), 0, [])
"""


def _one_dies(folder: str) -> str:
    """Rank 2 dies while rank 3 is still waited for."""
    import json

    import torch.distributed as dist

    from ringtree.torch_backend.creation import ANNOUNCED, join

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
    assert outcomes == ["RuntimeError: rank 2 ended while the group of 4 ranks was being set up"] * 2 + [""]


# -- several machines: one rank acts in a thread whose namespaces are its own

NEW_MOUNTS, NEW_NAMES, NEW_NETWORK = 0x20000, 0x4000000, 0x40000000
BIND, PRIVATE = 0x1000, 0x44000


def _on_another_host(name: str, folder: str) -> None:
    """This thread goes to a host of another name and start; with no name, to a network of its own on this one."""
    libc = ctypes.CDLL(None, use_errno=True)

    def do(done: int) -> None:
        if done:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    do(libc.unshare(NEW_NETWORK | (NEW_MOUNTS | NEW_NAMES if name else 0)))
    if name:
        boot = Path(folder) / name
        boot.write_text("another boot\n")
        do(libc.mount(None, b"/", None, PRIVATE, None))
        do(libc.mount(str(boot).encode(), b"/proc/sys/kernel/random/boot_id", None, BIND, None))
        do(libc.sethostname(name.encode(), len(name)))


def _may_unshare() -> bool:
    tried = subprocess.run(["unshare", "--net", "--mount", "--uts", "true"], capture_output=True, check=False)
    return tried.returncode == 0


def _two_hosts(folder: str, name: str, elsewhere: tuple[int, ...]) -> str:
    import torch.distributed as dist

    store = _store("file", folder + "/store")
    outcomes: list[str] = []

    def act() -> None:
        if dist.get_rank() in elsewhere:
            _on_another_host(name, folder)
        outcomes.append(_outcome(store, 60))

    dist.barrier()
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()
    dist.barrier()
    return outcomes[0]


@pytest.mark.parametrize("elsewhere", [(2,), (0,), (1, 2)])
@pytest.mark.parametrize("name", ["", "another-host"])
def test_ranks_on_several_hosts_raise_at_once(
    worlds: Worlds, tmp_path: Path, name: str, elsewhere: tuple[int, ...]
) -> None:
    if not _may_unshare():
        pytest.skip("this user cannot make namespaces")
    for outcome in worlds(3).run(_two_hosts, str(tmp_path), name, elsewhere):
        assert outcome.startswith("RuntimeError: rank 0 ")
        if name:
            assert socket.gethostname() in outcome and name in outcome and "take the backend gloo" in outcome
        else:
            assert "network namespaces differ" in outcome
