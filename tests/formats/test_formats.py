"""A file's format is decided by its content; a file of no format is refused soon, in one clear line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from ringtree import formats
from ringtree.algorithms import REGISTRY, build
from ringtree.cli import main
from ringtree.formats import FORMATS, Format, FormatError, Imported, load, text_of
from ringtree.formats.imported import LARGEST_BYTES
from ringtree.ir.schedule import Block, Schedule, Transfers
from ringtree.ir.spec import check
from tests.formats.writing import ring, write

RING = REGISTRY["ring"].build("all_reduce", 8)


def test_our_own_text(tmp_path):
    imported = load(write(tmp_path, f"# a comment\n\n{RING}\n", "ring.sched"))
    assert imported.schedule == RING
    assert imported.programs == ()
    assert imported.facts == {"format": "ringtree text"}


@pytest.mark.parametrize("name", ["ring.txt", "ring", "ring.json"])
def test_names_do_not_matter(name, tmp_path):
    assert load(str(write(tmp_path, "\ufeff \n" + ring(4), name))).facts["format"] == "MSCCL XML"


@pytest.mark.parametrize("packed", [False, True])
def test_a_trace_is_named_as_one(packed, tmp_path):
    data = b'{"displayTimeUnit": "ns", "traceEvents": []}'
    (tmp_path / "x").write_bytes(gzip.compress(data) if packed else data)
    with pytest.raises(FormatError, match="x: a trace; expected a schedule") as error:
        load(tmp_path / "x")
    assert "`ringtree show`" in str(error.value) and "`ringtree compare-trace`" in str(error.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty; expected a schedule"),
        (b"# only a comment", "not a schedule"),
        (b"hello\n", "not a schedule"),
        (b"\x7fELF\0\0", "not a schedule"),
        (b"schedule \xff", "not text: byte 9 is no UTF-8"),
        (b"schedule x dance: 2 ranks", "line 1: expected a collective"),
        (b"schedule x all_reduce: 2 ranks, 1 chunks\nonce: 0 data[7] -> 1", r"block 0, row 0 .*outside its buffer"),
        (b'schedule "a\\u009b2J\\nPROVED" all_reduce: 2 ranks, 1 chunks', r"'name a\\x9b2J\\nPROVED' cannot be shown"),
        (ring(4).replace('name="', 'name="&#x9b;2J').encode(), r"'name \\x9b2J.* cannot be shown"),
        (b"{", "not JSON"),
        (b"[1]", "not a schedule"),
        (b'{"nodes": []}', 'an object with "nodes"; expected an MSCCL'),
        (b"[" * 100_000, "not a schedule"),
        (b'{"a":' * 100_000, "nested too deeply|not JSON"),
        (b"<svg/>", "<svg> here; expected <algo>"),
        (b"<algo", "line 1: not well-formed XML"),
    ],
)
def test_files_of_no_format_are_refused(data, message, tmp_path):
    path = tmp_path / "x"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=f"x: .*({message})") as error:
        load(path)
    assert "\n" not in str(error.value)


def test_other_paths_than_files_are_refused(tmp_path):
    with pytest.raises(FormatError, match="no such file; expected a schedule"):
        load(tmp_path / "absent")
    with pytest.raises(FormatError, match="a folder; expected a schedule"):
        load(tmp_path)


ENTITIES = "".join(f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 20}">' for i in range(25))
BOMB = f'<!DOCTYPE algo [<!ENTITY a "{"a" * 99}">{ENTITIES}]><algo name="&z;"/>'


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        '<!DOCTYPE algo SYSTEM "file:///etc/passwd"><algo/>',
        "<a>" * 2_000_000,
        "<!--" + "-" * 1000 + "-->" + "<algo>" + "<gpu>" * 1_000_000,
        '<algo name="' + "x" * 1_000_000 + '"/>',
    ],
    ids=["entities", "external", "depth", "width", "attribute"],
)
@pytest.mark.timeout(60)  # some would take all memory, or hours
def test_hostile_xml_is_refused_before_it_is_read_whole(text, tmp_path):
    path = write(tmp_path, text)
    with pytest.raises(FormatError) as error:
        load(path)
    assert len(str(error.value)) < 1000


def test_a_huge_file_is_not_read(tmp_path):
    path = tmp_path / "huge.xml"
    with path.open("wb") as file:
        file.truncate(LARGEST_BYTES + 1)
    with pytest.raises(FormatError, match="16,777,217 bytes; expected a schedule, at most 16,777,216 bytes"):
        load(path)


def hops(path: Path, data: bytes) -> Imported:
    """`2 0+1 1>0`: 2 ranks; 0 adds to 1's, then 1 stores at 0."""
    ranks, *words = data.decode().split()[1:]
    rows = [Transfers.of(int(w[0]), int(w[2]), reduce=w[1] == "+", round=k) for k, w in enumerate(words)]
    schedule = Schedule(path.stem, "all_reduce", int(ranks), 1, (Block(Transfers.concatenate(rows)),))
    check(schedule)
    return Imported(schedule, facts={"format": "hops"})


def test_a_new_format_is_a_line_of_the_table(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(formats, "FORMATS", [*FORMATS, Format("hops", lambda s: s.startswith(b"%hops"), hops)])
    path = str(write(tmp_path, "%hops 2 0+1 1>0", "mine"))
    assert main(["prove", path]) == 0 and "proved (2 rounds, 2 transfers)" in capsys.readouterr().out
    assert main(["show", path, "--picture"]) == 0 and "mine all_reduce: 2 ranks" in capsys.readouterr().out
    with pytest.raises(FormatError, match=r"wrong: block 0, row 0 .*no such rank"):
        load(write(tmp_path, "%hops 2 0+7", "wrong"))
    with pytest.raises(FormatError, match=r"XML, an MSCCL.* execution plan or hops"):
        load(write(tmp_path, "hello", "none"))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_schedule_in_utf_16_is_named_as_such(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "ring.xml"
    path.write_bytes(f"\ufeff{text_of(build('ring', 'all_reduce', 2), 'msccl')}".encode(encoding))
    with pytest.raises(FormatError, match=r"ring.xml: is UTF-16, .*; expected UTF-8"):
        load(path)


def test_a_plan_with_a_name_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text_of(build("ring", "all_reduce", 2), "mscclpp").replace("{", '{"name": "other", ', 1))
    with pytest.raises(FormatError, match="the name 'name' stands twice; expected an execution plan"):
        load(path)
