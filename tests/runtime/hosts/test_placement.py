"""Hosts and the ranks of each: lists, hostfiles, and those that are none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ringtree.runtime.launch.hosts.placement import hosts_of, placed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", [("a", 1)]),
        ("a:4,me@b.example:2", [("a", 4), ("me@b.example", 2)]),
        ("[fd00::1]:3, [fd00::2]", [("fd00::1", 3), ("fd00::2", 1)]),
        ("10.0.0.1:2", [("10.0.0.1", 2)]),
        pytest.param(",".join(["a"] * 1000), [("a", 1)] * 1000, id="longer than a file's name"),
    ],
)
def test_lists(text: str, expected: list[tuple[str, int]]) -> None:
    assert hosts_of(text) == expected


def test_hostfiles(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("# ours\na:4\nb slots=2  # small\n\nc\nfd00::1 slots = 3\n[fd00::2]:2\n")
    assert hosts_of(str(file)) == [("a", 4), ("b", 2), ("c", 1), ("fd00::1", 3), ("fd00::2", 2)]


@pytest.mark.parametrize(
    "text", ["", "a:", "a:0", "a:x", "a,,b", "a:4 b:4", "-oProxyCommand=x", "fd00::1", "a slots=4", "a\0"]
)
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"--hosts: .* is no host; expected host:4"):
        hosts_of(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:4\nb cores=4\n", "line 2: 'b cores=4' is no host; expected host:4 or .* or host slots=4"),
        ("# nobody\n", "names no host"),
        ("-x slots=2", "line 1: '-x slots=2' is no host"),
        ("a\0b\n", "line 1: .* is no host"),
        ("\x1b[2Ja slots=2\n", "line 1: .* is no host"),
    ],
)
def test_hostfiles_that_are_wrong_are_refused(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "hosts"
    file.write_text(text)
    with pytest.raises(ValueError, match=expected):
        hosts_of(str(file))


def test_a_hostfile_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match=r"no such hostfile: \./hosts"):
        hosts_of("./hosts")


def test_ranks_fill_the_slots_and_each_host_is_there_once() -> None:
    entries = [("localhost", 2), ("b", 2), ("127.0.0.1", 1), (os.uname().nodename, 1), ("c", 9), ("b", 1)]
    assert [(host.name, host.ranks, host.local) for host in placed(entries, 7)] == [
        ("localhost", (0, 1, 4, 5), True),
        ("b", (2, 3), False),
        ("c", (6,), False),
    ]
    assert sum(len(host.ranks) for host in placed(entries, None)) == 16


@pytest.mark.parametrize("ranks", [0, -1, 5])
def test_more_ranks_than_slots_are_refused(ranks: int) -> None:
    with pytest.raises(ValueError, match=f"{ranks} ranks for 4 slots"):
        placed([("a", 4)], ranks)
