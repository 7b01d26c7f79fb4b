"""A path keeps the old file until the new one is whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ringtree.cli.arguments.destination import check_destination
from ringtree.files.replacing import replace_with_json, replacing
from ringtree.files.unfinished import create


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


def test_infinities_are_words_in_json(tmp_path: Path) -> None:
    path, inf = tmp_path / "x.json", float("inf")
    replace_with_json(path, {"one": inf, "many": [(1.5, -inf), float("nan")]})
    assert json.loads(path.read_text(), parse_constant=pytest.fail) == {"one": "inf", "many": [[1.5, "-inf"], "nan"]}


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path: Path) -> None:
    path, link = tmp_path / "x", tmp_path / "link"
    link.symlink_to(path)
    with replacing(link) as file:
        file.write(b"new")
    assert link.is_symlink() and path.read_bytes() == b"new"
    with replacing(Path(os.devnull)) as file:
        file.write(b"new")
    assert not Path(os.devnull).is_file()


def test_what_lies_beside_by_a_name_of_its_own_is_never_written_to(tmp_path: Path) -> None:
    """A link that another user puts there leads nowhere."""
    path, victim, beside = tmp_path / "x", tmp_path / "victim", tmp_path / ".x.part"
    victim.write_text("kept")
    beside.symlink_to(victim)
    with replacing(path) as file:
        file.write(b"new")
    assert (victim.read_text(), path.read_text(), beside.is_symlink()) == ("kept", "new", True)
    with pytest.raises(FileExistsError):
        create(beside)


def test_two_that_write_one_path_leave_one_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with replacing(path) as first:
        first.write(b"first begins, ")
        first.flush()
        with replacing(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
        first.write(b"first ends")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("x", "first begins, first ends")]


def test_the_new_file_has_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with replacing(tmp_path / "x") as file:
            file.write(b"new")
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640


def test_permissions_are_kept_and_nobody_else_reads_the_unfinished_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("old")
    path.chmod(0o600)
    with replacing(path) as file:
        file.write(b"new")
        assert [p.stat().st_mode & 0o777 for p in tmp_path.iterdir()] == [0o600, 0o600]
    assert path.read_text() == "new" and path.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="files of other users are root's to make")
def test_owner_and_group_are_kept_where_this_user_may(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("old")
    os.chown(path, 1234, 2345)
    path.chmod(0o6750)
    with replacing(path) as file:
        file.write(b"new")
    found = path.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (1234, 2345, 0o750)


@pytest.mark.skipif(os.geteuid() != 0, reason="files of other users are root's to make")
def test_the_file_of_another_user_is_replaced_by_ones_own() -> None:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are closed to others
        os.chmod(folder, 0o777)
        _replace_as_another_user(Path(folder) / "x")


def _replace_as_another_user(path: Path) -> None:
    path.write_text("old")
    path.chmod(0o664)
    script = f"""
import os
from pathlib import Path
from ringtree.files.replacing import replacing
os.setgroups([2345]); os.setgid(3456); os.setuid(1234)
with replacing(Path({str(path)!r})) as file:
    file.write(b"new")
"""
    os.chown(path, 0, 2345)
    subprocess.run([sys.executable, "-c", script], check=True)
    found = path.stat()
    assert path.read_text() == "new" and (found.st_uid, found.st_gid, found.st_mode & 0o777) == (1234, 2345, 0o664)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_named() -> None:
    with pytest.raises(OSError, match="No space left") as caught, replacing(Path("/dev/full")) as file:
        file.write(b"new")
    assert caught.value.filename == "/dev/full"


def test_a_named_pipe_without_a_reader_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="nobody reads this pipe") as caught, replacing(pipe):
        raise AssertionError("the block ran")
    assert caught.value.filename == str(pipe) and pipe.is_fifo()


def test_a_named_pipe_with_a_reader_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with replacing(pipe) as file:
        file.write(b"new")
    assert os.read(reader, 10) == b"new"
    os.close(reader)


def test_a_descriptor_is_written_to_where_it_stands(tmp_path: Path) -> None:
    """A plain file behind /dev/stdout holds what was printed before, and the descriptor stays open."""
    with open(tmp_path / "out", "wb", buffering=0) as out:
        out.write(b"table ")
        for name in ("/dev/fd", "/proc/self/fd"):
            with replacing(Path(name) / str(out.fileno())) as file:
                file.write(b"json ")
        out.write(b"end")
    assert (tmp_path / "out").read_bytes() == b"table json json end"


@pytest.mark.parametrize("piped", [True, False])
def test_standard_output_holds_the_table_and_then_the_record(tmp_path: Path, piped: bool) -> None:
    words = ["plan", "all_reduce", "--topology", "dgx-a100", "--bytes", "1M", "--json", "/dev/stdout"]
    file = tmp_path / "out"
    with open(file, "wb") as out:
        command = [sys.executable, "-m", "ringtree.cli", *words]
        done = subprocess.run(command, stdout=subprocess.PIPE if piped else out, stderr=subprocess.PIPE, timeout=60)
    text = (done.stdout if piped else file.read_bytes()).decode()
    assert (done.returncode, done.stderr) == (0, b"")
    table, record = text.split("\n{\n", 1)
    assert table.startswith("# all_reduce over 8 ranks") and json.loads("{" + record)["rows"]


def test_a_descriptor_that_is_not_open_is_refused_before_work(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such descriptor is open"):
        check_destination(Path("/dev/fd/999"))
