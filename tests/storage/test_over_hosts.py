"""Files on hosts that share nothing but the network: each host's ranks read their own copy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file, save_file

import ringtree.storage
from ringtree.storage.gathering import PIECE_BYTES
from tests.runtime.hosts.conftest import HostPools
from tests.storage.files import caught, plain, same, tensors


def loads(comm: Any, path: str) -> list[bool]:
    expected = load_file(path)
    return [same(ringtree.storage.load(path, comm, memory=m), expected) for m in ("private", "symmetric", "mapped")]


def refused(comm: Any, folder: str) -> list[str]:
    """Rank 2, alone on its host, finds a file that is cut short; then a folder that is not the others'."""
    os.chdir(Path(folder) / ("there" if comm.rank == 2 else "here"))
    return [
        caught(lambda: ringtree.storage.load("m", comm)),
        caught(lambda: ringtree.storage.save(tensors(), "new", comm)).replace(folder, ""),
    ]


def saves(comm: Any, folder: str) -> bool:
    whole = tensors(large=PIECE_BYTES)
    ringtree.storage.save(whole, Path(folder) / "saved", comm)
    return same(ringtree.storage.load(Path(folder) / "saved", comm), whole)


def test_ranks_of_two_hosts_load_and_save_one_file(host_pools: HostPools, tmp_path: Path) -> None:
    save_file(plain(tensors(large=7 * PIECE_BYTES)), tmp_path / "m")
    assert host_pools((2, 1)).run(loads, str(tmp_path / "m")) == [[True] * 3] * 3
    assert host_pools((2, 1)).run(saves, str(tmp_path)) == [True] * 3


def test_one_hosts_other_file_is_every_ranks_error(host_pools: HostPools, tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        save_file(plain(tensors()), tmp_path / name / "m")
    size = (tmp_path / "there" / "m").stat().st_size
    os.truncate(tmp_path / "there" / "m", size - 5)
    short, apart = host_pools((2, 1)).run(refused, str(tmp_path))[0]
    assert short == f"ValueError: rank 2: m: cut short: {size - 5:,} bytes; expected {size:,}"
    assert apart == "ValueError: rank 2: /there: not the folder of rank 0; expected one that all ranks share"
    assert [sorted(os.listdir(tmp_path / name)) for name in ("here", "there")] == [["m"], ["m"]]
