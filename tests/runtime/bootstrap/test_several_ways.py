"""Worlds of one process that meet in several ways: by stores of all ranks, and of some with numbers of their own."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from pathlib import Path

import pytest

import ringtree
from ringtree.runtime.communicator.communicator import Communicator

RANKS = 4


class Folder:
    """A store of keys in files."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.mkdir(exist_ok=True)

    def set(self, key: str, value: str) -> None:
        fresh = self._path / f"{key.replace('/', '-')}.{os.getpid()}"
        fresh.write_text(value)
        fresh.replace(self._path / key.replace("/", "-"))

    def get(self, key: str) -> str | None:
        file = self._path / key.replace("/", "-")
        return file.read_text() if file.exists() else None


def world(store: Folder, rank: int, size: int) -> Communicator:
    os.environ |= {"RINGTREE_RANK": str(rank), "RINGTREE_WORLD_SIZE": str(size)}
    return ringtree.init(store=store, timeout_s=30)


def meet(path: Path, number: int, order: str) -> None:
    """Makes worlds of all ranks and of those that are even or odd, in that order, and those of before once more."""
    half = number % 2
    ways = {"all": (Folder(path / "all"), number, RANKS), "half": (Folder(path / f"{half}"), number // 2, RANKS // 2)}
    expected = {"all": list(range(RANKS)), "half": list(range(half, RANKS, 2))}
    try:
        for name in (*order.split(), *order.split()):
            with world(*ways[name]) as comm:
                found = comm.all_gather_object(number)
                assert found == expected[name], f"{name}: {found}"
        (path / f"right-{number}").touch()
    except (AssertionError, ringtree.RankFailed, RuntimeError, TimeoutError, LookupError):
        (path / f"wrong-{number}").write_text(traceback.format_exc())


@pytest.mark.parametrize("order", ["half all", "all half half", pytest.param("all half", marks=pytest.mark.slow)])
def test_each_store_has_its_own_ranks(tmp_path: Path, order: str) -> None:
    spawning = multiprocessing.get_context("spawn")
    ranks = [spawning.Process(target=meet, args=(tmp_path, number, order)) for number in range(RANKS)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()
    wrong = [file.read_text() for file in sorted(tmp_path.glob("wrong-*"))]
    assert not wrong and len(list(tmp_path.glob("right-*"))) == RANKS, "\n".join(wrong)
