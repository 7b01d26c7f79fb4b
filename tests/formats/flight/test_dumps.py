"""Reading dumps: both forms, fields of old and new versions, and files that are none."""

from __future__ import annotations

import json
import os
import pickle
import random
import time
from pathlib import Path
from typing import Any

import pytest

from ringtree.formats.flight.dumps import DumpError, is_dump, read
from tests.formats.flight.recorded import document, entry, write

WHOLE = document([entry("all_reduce", 1), entry("_all_gather_base", 2, "started", outputs=[[4, 8]])], 4, {})


def test_pickle_and_json_are_read_alike(tmp_path: Path) -> None:
    pickled = write(tmp_path / "nccl_trace_rank_3", pickle.dumps(WHOLE, 2))
    text = write(tmp_path / "rank.3.json", json.dumps(WHOLE).encode())
    assert pickled.rank == text.rank == 3 and pickled.operations == text.operations
    first, second = pickled.operations
    assert str(first) == "all_reduce(float32 [8])" and first.completed and first.timeout_s == 600
    assert second.name == "all_gather_into_tensor" and second.outputs == (("float32", (4, 8)),)
    assert not second.completed and second.group.ranks == (0, 1, 2, 3) and str(second.group) == "default_pg"
    assert first.frames == ("step, train.py:12",)
    assert is_dump((tmp_path / "nccl_trace_rank_3").read_bytes()) and is_dump((tmp_path / "rank.3.json").read_bytes())


@pytest.mark.parametrize(("name", "rank"), [
    ("comm_lib_trace_rank_12", 12), ("nccl_trace_rank_0", 0), ("rank.7.json", 7), ("job41_rank3.pkl", 3), ("dump_5", 5),
    ("rank_2_of_8.pickle", 2), ("dump_20261129_4", 4),
])  # fmt: skip
def test_the_rank_is_in_the_files_name(tmp_path: Path, name: str, rank: int) -> None:
    assert write(tmp_path / name, pickle.dumps(WHOLE)).rank == rank


def test_the_end_of_a_longer_number_is_no_rank(tmp_path: Path) -> None:
    with pytest.raises(DumpError, match="no rank in the file's name"):
        write(tmp_path / "dump_20261129", pickle.dumps(WHOLE))


@pytest.mark.timeout(20)
def test_a_tensor_of_very_many_axes_is_refused_at_once(tmp_path: Path) -> None:
    long = document([entry("all_reduce", 1, outputs=[[3] * 400_000])], 4, {})
    with pytest.raises(DumpError, match="a tensor of 400,000 axes; expected at most 64, as torch's have"):
        write(tmp_path / "rank_0", pickle.dumps(long))


def test_an_old_version_lacks_fields(tmp_path: Path) -> None:
    old = {
        "entries": [{"profiling_name": "nccl:all_reduce", "process_group": ("0", ""), "seq_id": 4, "state": "started"}]
    }
    (operation,) = write(tmp_path / "rank_0", pickle.dumps(old)).operations
    assert (operation.number, operation.group.name, operation.inputs, operation.group.ranks) == (4, "0", (), ())


def test_the_parts_of_a_coalesced_call_end_with_it(tmp_path: Path) -> None:
    parts = [entry("send 0->1", 5, "scheduled"), entry("recv 0<-1", 5, "scheduled")]
    for state in ("completed", "started"):
        whole = entry("coalesced", 0, state, is_p2p=True, p2p_seq_id=5)
        dump = write(tmp_path / "rank_0", pickle.dumps(document([*parts, whole], 2, {})))
        assert [o.completed for o in dump.operations] == [state == "completed"] * 3


LOOP: list[Any] = []
LOOP.append(LOOP)
NONE: dict[str, tuple[bytes, str]] = {
    "rank_0": (b"", "empty"),
    "rank_1": (b"\x1f\x8b\x08", "packed with gzip"),
    "rank_2": (b"nothing", "not JSON"),
    "rank_3": (b"[" * 100_000, "nested too deeply"),
    "rank_4": (b"{}", "no list of entries"),
    "rank_5": (pickle.dumps([1]), "no list of entries"),
    "rank_6": (pickle.dumps({"entries": 7}), "no list of entries"),
    "rank_7": (pickle.dumps({"entries": [7]}), "entry 0 names no operation"),
    "rank_8": (pickle.dumps({"entries": LOOP}), "entry 0 names no operation"),
    "rank_9": (b"[" + b"[]," * 2_600_000, "more than 4,000,000 values"),
    "rank_10": (b"\x80\x02cos\nsystem\n.", r"would run code \(os system\)"),
    "rank": (pickle.dumps(WHOLE), "no rank in the file's name"),
    "rank_11": (pickle.dumps({"entries": [entry("all_reduce", 1, sizes=[list(range(1000))] * 6000)] * 5}), "sizes"),
}


@pytest.mark.parametrize("name", NONE)
def test_a_file_that_is_no_dump_is_one_line_and_quick(tmp_path: Path, name: str) -> None:
    data, expected = NONE[name]
    begun = time.monotonic()
    with pytest.raises(DumpError, match=expected) as raised:
        write(tmp_path / name, data)
    assert str(raised.value).startswith(str(tmp_path / name)) and "\n" not in str(raised.value)
    assert time.monotonic() - begun < 20


def test_a_pipe_is_refused_unread(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rank_0")
    with pytest.raises(DumpError, match="a pipe"):
        read(tmp_path / "rank_0")


def test_fields_of_any_kind_raise_nothing_else(tmp_path: Path) -> None:
    strange: list[Any] = [None, -1, 1 << 80, "x", [], [[]], [None], {}, {"a": 1}, 0.5, True, ["x"] * 3, LOOP]
    draw = random.Random(3)
    for number in range(300):
        changed = document([dict(entry("send 0->9", 1)), dict(entry("all_reduce", 2))], 2, {})
        for holder in (changed, *changed["entries"], changed["pg_config"]["0"]):
            holder[draw.choice(list(holder))] = draw.choice(strange)
        try:
            write(tmp_path / f"rank_{number}", pickle.dumps(changed))
        except DumpError as error:
            assert "\n" not in str(error)
