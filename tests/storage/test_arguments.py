"""Names of files that are none are one line on every rank, before anything is made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ringtree
import ringtree.storage
from tests.storage.files import caught


def _refusals(path: str) -> tuple[str, str]:
    """The error of a save and of a load, alike on both ranks."""

    def work(comm: Any) -> tuple[str, str]:
        return (
            caught(lambda: ringtree.storage.save(np.zeros(3), path, comm)),
            caught(lambda: ringtree.storage.load(path, comm)),
        )

    first, second = ringtree.spawn(work, 2, timeout_s=60)
    assert first == second
    return first


@pytest.mark.parametrize("end", ["/", "//", "/."])
def test_a_folders_name_is_no_files(tmp_path: Path, end: str) -> None:
    path = f"{tmp_path}/new{end}"
    expected = f"ValueError: {path}: the name of a folder, as it ends; expected the name of a file"
    assert _refusals(path) == (expected, expected) and os.listdir(tmp_path) == []


@pytest.mark.parametrize(("name", "what"), [("a\0b", "a NUL"), ("a\ud800b", "half a character")])
def test_a_name_that_no_file_has_is_shown(tmp_path: Path, name: str, what: str) -> None:
    path = f"{tmp_path}/{name}"
    expected = f"ValueError: path is {path!r}, with {what}; expected the name of a file"
    assert _refusals(path) == (expected, expected)
    assert _refusals(f"{tmp_path}/a\udcffb")[0] == "no error", "of bytes that are no UTF-8"
