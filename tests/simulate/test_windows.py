"""As an engine runs programs: as many bytes in more and shorter messages."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from ringtree.algorithms import build
from ringtree.algorithms.registry import pairs
from ringtree.ir.lower import lower
from ringtree.ir.trace import Event
from ringtree.simulate import play
from ringtree.simulate.windows import SHORT_NBYTES, as_run
from ringtree.topology.shapes import direct

MACHINE = direct(4, copy_Bps=1e9, reduce_Bps=1e9)


@pytest.mark.parametrize(("name", "what"), pairs(), ids=[f"{a}-{c}" for a, c in pairs()])
def test_windows_move_as_many_bytes_in_more_messages(name: str, what: str) -> None:
    programs = lower(build(name, what, 4))
    nbytes = 1 << 16
    whole, cut = (play(as_run(programs, windows, nbytes), MACHINE, nbytes).trace for windows in (1, 4))
    assert np.array_equal(whole.sent_nbytes(), cut.sent_nbytes())
    assert 4 * np.sum(whole.kind == Event.SEND) == np.sum(cut.kind == Event.SEND)
    for kind in (Event.COPY, Event.REDUCE):
        assert whole.nbytes[whole.kind == kind].sum() == cut.nbytes[cut.kind == kind].sum()


def test_a_short_message_is_not_staged() -> None:
    programs = lower(build("ring", "all_reduce", 4))
    long, short = (play(as_run(programs, 1, nbytes), MACHINE, 64).trace for nbytes in (4096, 16))
    assert np.sum(long.kind == Event.COPY) == np.sum(short.kind == Event.COPY) + 4  # the first of each rank
    assert np.sum(long.kind == Event.SEND) == np.sum(short.kind == Event.SEND)


def test_bytes_in_place_are_not_copied() -> None:
    programs = lower(build("chain", "broadcast", 4))
    apart, inside = (play(as_run(programs, 1, 4096, in_place), MACHINE, 4096).trace for in_place in (False, True))
    copies = [np.bincount(t.rank[t.kind == Event.COPY], minlength=4).tolist() for t in (apart, inside)]
    assert copies[0][0] == copies[1][0] + 1 and copies[0][1:] == copies[1][1:]


def test_messages_are_short_by_the_engines_rule() -> None:
    header = (Path(__file__).parents[2] / "csrc/memory/segment.h").read_text(encoding="utf-8")
    room = re.search(r"struct alignas\(cache_line\) Descriptor \{\s+static constexpr std::size_t room = (\d+);", header)
    assert room and int(room[1]) == SHORT_NBYTES
