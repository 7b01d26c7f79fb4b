"""ringtree simulate on a part of a machine, on several of it, and with other NICs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Ringtree


def test_a_schedule_for_some_gpus_takes_on_them_as_long_as_was_searched(ringtree: Ringtree, tmp_path: Path) -> None:
    found, record = tmp_path / "found.txt", tmp_path / "found.json"
    where = ("--topology", "dgx-1-v100", "--gpus", "0,1,2,4,5,6", "--bytes", "256M")
    ringtree("search", "all_reduce", *where, "--export", str(found), "--json", str(record))
    searched_us = json.loads(record.read_text())["candidates"][0]["time_us"]
    got = ringtree("simulate", str(found), *where)
    assert got.code == 0 and float(re.findall(r"time ([\d.]+) ms", got.out)[0]) == pytest.approx(
        searched_us / 1e3, rel=0.01
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--topology dgx-1-v100 --gpus 0,1,2,4,5,6", "ring all_reduce over 6 ranks"),
        ("--topology dgx-h100 --nodes 2", "on dgx-h100 x2: 16 ranks"),
        ("--topology gh200x4 --nodes 1", "on gh200x4: 4 ranks"),
        ("--topology gh200x4", "on gh200x4 x2: 8 ranks"),
        ("--topology dgx-h100 --nics 4x400Gb -n 16", "on dgx-h100 x2: 16 ranks"),
        ("--topology cpu-2s --nodes 3", "on cpu-2s x3: 6 ranks"),
    ],
)
def test_machines_and_ranks_are_as_many(ringtree: Ringtree, words: str, expected: str) -> None:
    got = ringtree("simulate", "ring", "--bytes", "1M", *words.split())
    assert got.code == 0 and expected in got.out


def test_slower_nics_are_slower(ringtree: Ringtree) -> None:
    times = []
    for nics in ("8x400Gb", "8x100Gb"):
        got = ringtree("simulate", "ring", "--bytes", "64M", "--topology", "dgx-h100", "--nodes", "2", "--nics", nics)
        times.append(float(re.findall(r"time ([\d.]+) ms", got.out)[0]))
    assert times[1] == pytest.approx(4 * times[0], rel=0.05)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--nodes 1", "--nodes applies to machines, not to switch:latency=2us,bandwidth=25GB/s; leave it out"),
        ("--topology switch --gpus 2", "--gpus applies to machines, not to switch; leave it out"),
        ("--hosts 2,2 --nics 1x100Gb", "--nics applies to machines, not to --hosts; leave it out"),
        ("--topology dgx-h100 --nodes 2 -n 4", "dgx-h100 x2 has 16 ranks, and -n/--ranks 4: expected the same"),
        ("--topology dgx-h100 --nodes 0", "--nodes 0: expected 1 to"),
        ("--topology dgx-h100 --nodes 2 --sharp", "--sharp: no schedule reduces in the network's switches"),
        ("--topology dgx-h100 --fabric roce -n 12", "12 ranks on machines of 8 GPUs; expected a multiple"),
        ("--topology mi300x8 --gpus 2 --constants c.json", "--gpus applies to links, not to thread blocks on a device"),
    ],
)
def test_a_mistake_is_one_line(ringtree: Ringtree, words: str, expected: str) -> None:
    got = ringtree("simulate", "ring", "--bytes", "64K", *words.split())
    assert got.code in (1, 2) and got.out == ""
    assert expected in got.err and len(got.err.splitlines()) == 1


def test_machines_without_nics_are_not_joined(ringtree: Ringtree, tmp_path: Path) -> None:
    path = tmp_path / "alone.json"
    path.write_text('{"machine": "alone", "devices": [{"name": "cpu0", "kind": "cpu"}], "links": [], "notes": []}')
    got = ringtree("simulate", "ring", "--bytes", "64K", "--topology", str(path))
    why = "alone has no NICs to connect 8 of it, for 8 ranks; expected at most 1 rank, or --nics, such as 8x400Gb\n"
    assert (got.code, got.out, got.err) == (1, "", f"ringtree simulate: topology {path}: {why}")
    assert ringtree("simulate", "ring", "--bytes", "64K", "--topology", str(path), "--nics", "1x100Gb").code == 0


def test_a_file_has_its_own_number_of_ranks(ringtree: Ringtree, tmp_path: Path) -> None:
    file = tmp_path / "four.txt"
    file.write_text(ringtree("show", "ring", "-n", "4", "--text").out)
    assert ringtree("simulate", str(file), "--bytes", "64K", "--topology", "dgx-h100", "--gpus", "4").code == 0
    got = ringtree("simulate", str(file), "--bytes", "64K", "--topology", "dgx-h100", "--nodes", "2")
    assert (got.code, got.err) == (
        1,
        "ringtree simulate: dgx-h100 x2 has 16 ranks, the schedule 4: expected as many\n",
    )
