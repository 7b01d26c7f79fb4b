"""What is written reads back: our algorithms, searched schedules and random ones as MSCCL XML and MSCCL++ plans, proved
as the file's programs and as the schedule that is raised from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ringtree import search
from ringtree.algorithms import REGISTRY, build
from ringtree.formats import WRITERS, Imported, load, text_of
from ringtree.formats.streams import THEIRS
from ringtree.ir.schedule import Schedule
from ringtree.machines.catalogue import machine
from ringtree.transform import relabel, share
from ringtree.verify import prove, prove_programs
from tests import oracle

KEYS = ("msccl", "mscclpp")
CASES = [(name, collective) for name, found in REGISTRY.items() for collective in found.serves if collective in THEIRS]


def written(schedule: Schedule, key: str, folder: Path) -> Imported:
    """The schedule's file, read back and proved."""
    path = folder / f"file{WRITERS[key].suffix}"
    path.write_text(text_of(schedule, key))
    found = load(path)
    prove(found.schedule)
    proof = prove_programs(found.programs, alike=True)
    assert (proof.early, proof.late) == (None, None)
    heads = [(s.collective, s.ranks, s.chunks) for s in (schedule, found.schedule)]
    assert heads[0] == heads[1]
    assert np.array_equal(found.schedule.chunks_sent(), schedule.chunks_sent())
    return found


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(("name", "collective"), CASES)
def test_an_algorithm_reads_back(name: str, collective: str, key: str, tmp_path: Path) -> None:
    for n in (1, 2, 3, 4, 8):
        schedule = build(name, collective, n)
        found = written(schedule, key, tmp_path)
        if n == 4:
            assert oracle.wrong(found.schedule) is None


@pytest.mark.parametrize("key", KEYS)
def test_a_searched_schedule_reads_back(key: str, tmp_path: Path) -> None:
    """Rings along the orders that the search finds on a DGX-1, side by side."""
    plain = build("ring", "all_reduce", 8)
    rings = [relabel(plain, order) for order in search.rings(machine("dgx-1-v100"))]
    for schedule in (rings[0], share(*rings[:2])):
        written(schedule, key, tmp_path)
