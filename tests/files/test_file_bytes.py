"""How a file is opened: plain ones, at once, unpacked within bounds; anything else is one line."""

from __future__ import annotations

import gzip
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from ringtree.files import file_bytes as module
from ringtree.files.file_bytes import beginning, content, file_bytes, first_bytes

MOST = 1 << 20


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def bound(path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
    return path


def folder(path: Path) -> Path:
    path.mkdir()
    return path


def loop(path: Path) -> Path:
    path.symlink_to(path)
    return path


def sparse(path: Path) -> Path:
    with path.open("wb") as file:
        file.truncate(1 << 40)
    return path


def plain(data: bytes) -> Callable[[Path], Path]:
    def made(path: Path) -> Path:
        path.write_bytes(data)
        return path

    return made


NONE = {
    "pipe": (pipe, "a pipe; expected a letter"),
    "socket": (bound, "a socket; expected a letter"),
    "folder": (folder, "a folder; expected a letter"),
    "loop": (loop, "cannot be read (Too many levels of symbolic links); expected a letter"),
    "absent": (lambda path: path, "no such file; expected a letter"),
    "endless": (lambda path: Path("/dev/zero"), "a device; expected a letter"),
    "sparse": (sparse, "1,099,511,627,776 bytes; expected a letter, at most 1,048,576 bytes"),
    "empty": (plain(b""), "empty; expected a letter"),
    "blank": (plain(b" \n"), "empty; expected a letter"),
    "xz": (plain(b"\xfd7zXZ\x00 and more"), "packed with xz; expected a letter: unpack it first"),
    "no name": (lambda path: Path("a\0b"), "no name of a file; expected a letter"),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", NONE)
def test_what_is_no_plain_file_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    make, expected = NONE[kind]
    path = make(tmp_path / "x")
    for unpack in (False, True):
        with pytest.raises(ValueError) as error:
            file_bytes(path, "a letter", MOST, unpack)
        assert str(error.value).endswith(expected) and "\n" not in str(error.value)


@pytest.mark.timeout(20)
def test_a_file_that_waits_is_not_waited_for() -> None:
    """A plain file by its mode, whose read would block for ever."""
    try:
        os.close(os.open("/proc/kmsg", os.O_RDONLY | os.O_NONBLOCK))
    except OSError:
        pytest.skip("/proc/kmsg cannot be opened here")
    with pytest.raises(ValueError, match=r"empty|bytes|cannot be read"):
        file_bytes("/proc/kmsg", "a letter", 1)


def test_a_packed_file_is_unpacked_where_it_may_be(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(b"Dear ") + gzip.compress(b"reader"))
    assert file_bytes(path, "a letter", MOST, unpack=True) == b"Dear reader"
    assert first_bytes(path, 6, unpack=True) == b"Dear r"
    path.write_bytes(gzip.compress(b"Dear " * 1000)[:-9])
    assert first_bytes(path, 6, unpack=True) == b"Dear D"
    with pytest.raises(ValueError, match="packed with gzip; expected a letter: unpack it first"):
        file_bytes(path, "a letter", MOST)


@pytest.mark.parametrize("cut", [1, 9, 15])
def test_a_broken_packed_file_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(os.urandom(100))[:-cut])
    with pytest.raises(ValueError, match="its gzip is broken or cut short"):
        file_bytes(path, "a letter", MOST, unpack=True)


def test_a_packed_file_is_unpacked_as_far_as_it_may_be_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(b"a" * (MOST + 1)))
    with pytest.raises(ValueError, match="unpacked more than 1,048,576 bytes; expected a letter of fewer"):
        file_bytes(path, "a letter", MOST, unpack=True)
    monkeypatch.setattr(module, "FREE_BYTES", MOST // 2)
    path.write_bytes(gzip.compress(b"a" * MOST))
    with pytest.raises(ValueError, match="unpacked over 200 times as long as packed; expected a letter"):
        file_bytes(path, "a letter", MOST, unpack=True)
    path.write_bytes(gzip.compress(bytes(range(256)) * 3000 + os.urandom(4000)))
    assert len(file_bytes(path, "a letter", MOST, unpack=True)) == 772_000


def test_no_more_is_unpacked_than_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(b"a" * (64 << 20)))
    with content(path, "a letter", 1 << 30, unpack=True) as of:
        assert len(of.read(10)) == 10 and len(of.read()) == 1 << 20


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_byte_order_mark_is_no_part_of_a_text(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "x"
    path.write_bytes(pack(b"\xef\xbb\xbfletter"))
    assert file_bytes(path, "a letter", MOST, unpack=True) == first_bytes(path, 10, unpack=True) == b"letter"
    with content(path, "a letter", MOST, unpack=True, binary=True) as of:
        assert of.read() == b"\xef\xbb\xbfletter"
    if pack is bytes:
        assert beginning(path, "a letter", 10) == b"letter" == first_bytes(path, 10)[:6]


def test_the_first_bytes_of_what_is_no_file_are_none(tmp_path: Path) -> None:
    for make in (pipe, folder):
        path = make(tmp_path / make.__name__)
        assert first_bytes(path, 10) == first_bytes(path, 10, unpack=True) == b""
