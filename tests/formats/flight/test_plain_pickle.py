"""Pickles of plain data give what Python's own reader gives; all else is refused, and nothing of it is called."""

from __future__ import annotations

import os
import pickle
import random
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ringtree.formats.flight.plain_pickle import MOST_OPEN, PickleError, load
from tests.formats.flight.recorded import document, entry

PLAIN = [
    None, True, False, 0, 255, 256, 65535, 65536, -1, -(1 << 31), 1 << 31, (1 << 63) - 1, -(1 << 63), 0.5, -0.0, "",
    "a" * 300, "é\n", (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [], [1], list(range(3000)), {}, {"a": 1},
    {str(n): [n, (n,)] for n in range(2000)}, {1: {2: {3: []}}},
    document([entry("all_reduce", n) for n in range(50)], 4, {"1": ("tp", [0, 2])}),
]  # fmt: skip


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_data_is_as_pythons_reader_gives_it(protocol: int) -> None:
    for value in PLAIN:
        assert load(data := pickle.dumps(value, protocol)) == pickle.loads(data) == value


class Runs:
    """Whose unpickling calls a function."""

    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], self.call[1:]


@pytest.mark.parametrize("protocol", [2, 4])
def test_code_is_named_and_not_run(tmp_path: Path, protocol: int) -> None:
    ran = tmp_path / "ran"
    for value in (Runs(os.mkdir, str(ran)), {"entries": [Runs(os.mkdir, str(ran))]}, Path("x"), {1, 2}, os.mkdir):
        with pytest.raises(PickleError, match=r"would run code|makes no plain data"):
            load(pickle.dumps(value, protocol))
        assert not ran.exists()
    with pytest.raises(PickleError, match=r"would run code \(posix mkdir\)"):
        load(pickle.dumps(Runs(os.mkdir, str(ran)), protocol))


HOSTILE = {
    b"": "in the middle",
    b"\x80": "in the middle",
    b"\x80\x02.": "with 0 values",
    b"\x80\x02NN.": "with 2 values",
    b"\x80\x02(.": "with 0 values",
    b"\x80\x02e.": "did not begin",
    b"\x80\x02a.": "does not have",
    b"\x80\x02NNa.": "adds to no list",
    b"\x80\x02N(Ne.": "adds to no list",
    b"\x80\x02}(Nu.": "a key without a value",
    b"\x80\x02}]Ns.": "neither text nor a number",
    b"\x80\x02](a.": "does not have",
    b"\x80\x02h\x07.": "recalls value 7",
    b"\x80\x02q\x01.": "adds to no object",
    b"\x80\x02X\xff\xff\xff\xff.": "in the middle",
    b"\x80\x02X\x01\x00\x00\x00\xff.": "no UTF-8",
    b"\x80\x05\x8d\xff\xff\xff\xff\xff\xff\xff\x7f.": "in the middle",
    b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x7f.": "makes no plain data",
    b"\x80\x02\x8a\xff" + b"\xff" * 255 + b".": "a number of 255 bytes",
    b"\x80\x02\x8b\xff\xff\xff\x7f.": "makes no plain data",
    b"\x80\x02" + b"(" * (MOST_OPEN + 1): "nested more than",
    b"\x80\x02" + b"N" * 5_000_001: "more than 5,000,000 values",
}


@pytest.mark.parametrize("data", HOSTILE, ids=list(HOSTILE.values()))
def test_a_hostile_pickle_is_one_error(data: bytes) -> None:
    with pytest.raises(PickleError, match=HOSTILE[data]):
        load(data)


def test_a_memo_of_a_huge_number_takes_no_memory() -> None:
    tracemalloc.start()
    assert load(b"\x80\x02Nr\xfe\xff\xff\xff.") is None
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_broken_bytes_never_raise_anything_else() -> None:
    data, draw = bytearray(pickle.dumps(PLAIN[-1], 2)), random.Random(7)
    for _ in range(2000):
        broken = bytearray(data)
        for _ in range(draw.randint(1, 4)):
            broken[draw.randrange(len(broken))] = draw.randrange(256)
        with suppress(PickleError):
            load(bytes(broken[: draw.randint(1, len(broken))]))
