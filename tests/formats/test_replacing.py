"""A path keeps the old file until the new one is whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ringtree.formats.replacing import replacing


def test_the_new_is_there_at_the_end_and_not_before(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("old")
    with replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_text() == "old"
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("x", "new")]


def test_the_old_stays_where_the_block_fails(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), replacing(path) as file:
        file.write(b"new")
        raise ZeroDivisionError
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("x", "old")]


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path: Path) -> None:
    path, link = tmp_path / "x", tmp_path / "link"
    link.symlink_to(path)
    with replacing(link) as file:
        file.write(b"new")
    assert link.is_symlink() and path.read_bytes() == b"new"
    with replacing(Path(os.devnull)) as file:
        file.write(b"new")
    assert not Path(os.devnull).is_file()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_named() -> None:
    with pytest.raises(OSError, match="No space left") as caught, replacing(Path("/dev/full")) as file:
        file.write(b"new")
    assert caught.value.filename == "/dev/full"
