"""Reads of a file's parts, and what of a file is in the page cache."""

from __future__ import annotations

import mmap
import os
import sys
from pathlib import Path
from subprocess import run

import numpy as np
import pytest

from ringtree.storage.layout import PAGE
from ringtree.storage.reading import Reader, cached_bytes, cached_bytes_mapped
from tests.storage.files import forget


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(np.random.default_rng(0).integers(0, 256, 40 * PAGE + 7, np.uint8).tobytes())
    forget(path)
    return path


@pytest.mark.parametrize("asked", [cached_bytes, cached_bytes_mapped])
def test_what_is_in_the_page_cache_is_known(file: Path, asked: object) -> None:
    with file.open("rb") as opened:
        descriptor, size = opened.fileno(), file.stat().st_size
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)  # nothing is read ahead
        count = asked  # type: ignore[assignment]
        if count(descriptor, 0, size) is None:
            pytest.skip("this kernel has no such call")
        before = count(descriptor, 0, size)
        os.pread(descriptor, 1, 8 * mmap.PAGESIZE)
        after = count(descriptor, 0, size)
        assert before == 0 and 0 < after < size
        assert count(descriptor, 8 * mmap.PAGESIZE, mmap.PAGESIZE) == mmap.PAGESIZE
        os.pread(descriptor, size, 0)
        assert count(descriptor, 0, size) == -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


@pytest.mark.parametrize("direct", [None, True, False])
@pytest.mark.parametrize("offset", [0, PAGE, 39 * PAGE, 40 * PAGE, 5])
def test_a_part_is_read_as_far_as_the_file_goes(file: Path, direct: bool | None, offset: int) -> None:
    memory = mmap.mmap(-1, 44 * PAGE)
    expected = file.read_bytes()[offset : offset + 44 * PAGE]
    forget(file)
    with file.open("rb") as opened, Reader(opened.fileno(), file, file.stat().st_size, direct) as reader:
        reader.read(memoryview(memory), offset)
        assert memory[: len(expected)] == expected and not any(memory[len(expected) :])
        assert reader.is_cached(0, PAGE, whole=True) == (direct is False) or offset


def test_a_file_that_became_shorter_is_an_error(file: Path) -> None:
    with file.open("rb") as opened, Reader(opened.fileno(), file, file.stat().st_size) as reader:
        os.truncate(file, 3 * PAGE + 1)
        with pytest.raises(ValueError, match=f"it ended at byte {3 * PAGE + 1:,} while it was read; expected "):
            reader.read(memoryview(bytearray(44 * PAGE)), 0)


def test_the_benchmark_of_files_names_a_folder_that_is_none() -> None:
    ended = run([sys.executable, "-m", "benchmarks.storage", "none"], capture_output=True, text=True)
    assert ended.returncode == 2 and ended.stderr.endswith("none is no folder; expected one on the disk to measure\n")
