"""Thread blocks on a device: small cases worked out by hand.

A send and a receive take a step each; links have no latency unless a test sets one.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ringtree.formats import load
from ringtree.ir.program import Instruction, Kind, Operand, Program, Space
from ringtree.ir.trace import Event
from ringtree.simulate import Conditions, StuckError
from ringtree.simulate.device import DeviceConstants, play, seconds
from ringtree.simulate.device.play import PLAYED, pieces_of
from ringtree.topology import direct
from tests.simulate.device.msccl_ring import written

OUT, SLOT, MESSAGE = Space.OUTPUT, Space.SLOT, Space.MESSAGE
UNIT = DeviceConstants(launch_s=100, step_s=5, block_Bps=1e3)
FAST_LINK = direct(2, latency_s=0, bandwidth_Bps=1e6)


def lanes(*chunks: int) -> tuple[Program, Program]:
    """Rank 0 sends each of the chunks to rank 1, a thread block and a channel for each at either end."""
    here, there = [], []
    for channel, chunk in enumerate(chunks):
        o = Operand(OUT, chunk, chunk)
        here.append((
            Instruction(Kind.COPY, (Operand(SLOT, channel, chunk),), (o,)),
            Instruction(Kind.SIGNAL, peer=1, register=channel, channel=channel),
        ))  # fmt: skip
        there.append((
            Instruction(Kind.WAIT, peer=0, register=channel, channel=channel),
            Instruction(Kind.COPY, (o,), (Operand(MESSAGE, channel, chunk),)),
            Instruction(Kind.RELEASE, peer=0, channel=channel),
        ))  # fmt: skip
    many = len(chunks)
    return (
        Program("mine", "all_reduce", 0, 2, many, tuple(here)),
        Program("mine", "all_reduce", 1, 2, many, tuple(there)),
    )


@pytest.mark.parametrize(
    ("slices", "nbytes", "time_s"),
    [
        (1, 0, 100 + 5 + 5),
        (1, 8000, 100 + 5 + 8 + 5 + 8),
        (2, 8000, 100 + 5 + 4 + 5 + 4 + 4),  # the second half arrives while the first is copied
        (8, 8000, 100 + 5 + 1 + 5 + 8),
    ],
)
def test_a_thread_block_sends_and_another_receives(slices: int, nbytes: int, time_s: float) -> None:
    constants = DeviceConstants(100, 5, 1e3, slices=slices)
    assert play(lanes(0), FAST_LINK, nbytes, constants).time_s == pytest.approx(time_s, rel=1e-3)
    assert seconds(lanes(0), FAST_LINK, nbytes, constants) == play(lanes(0), FAST_LINK, nbytes, constants).time_s


def test_a_sender_waits_until_its_message_has_arrived() -> None:
    far = direct(2, latency_s=50, bandwidth_Bps=1e6)
    assert play(lanes(0), far, 8000, UNIT).time_s == pytest.approx(100 + 5 + 8 + 50 + 5 + 8)
    one, other = lanes(0)
    copy = Instruction(Kind.COPY, (Operand(OUT, 0, 0),), (Operand(Space.SCRATCH, 0, 0),))
    after = (Program("mine", "all_reduce", 0, 2, 1, ((*one.threads[0], copy),), scratch=1), other)
    copies = play(after, far, 8000, UNIT).trace
    own = copies.start_s[(copies.kind == Event.COPY) & (copies.rank == 0)]
    assert own.max() == pytest.approx(100 + 5 + 8 + 50)


def test_thread_blocks_share_a_link_and_none_has_more_than_it_copies() -> None:
    """Four messages of 2 s each: side by side, or limited by a link for two, of which payload has a half."""
    four, nbytes = lanes(0, 1, 2, 3), 8000
    constants = DeviceConstants(0, 0, 1e3)
    assert play(four, FAST_LINK, nbytes, constants).time_s == pytest.approx(4)
    narrow = direct(2, latency_s=0, bandwidth_Bps=2e3)
    assert play(four, narrow, nbytes, constants).time_s == pytest.approx(4 + 2)
    half = DeviceConstants(0, 0, 1e3, link_share=0.5)
    assert play(four, narrow, nbytes, half).time_s == pytest.approx(8 + 2)


def test_a_sender_waits_for_slots() -> None:
    """One slot, and a receiver that is 1000 s late and then takes 1 s for each of three pieces."""
    constants = DeviceConstants(0, 0, 1e3, piece_nbytes=1000, slots=1)
    late = Conditions(delay_s={1: 1000.0})
    sends = play(lanes(0), FAST_LINK, 3000, constants, conditions=late).trace
    starts = np.sort(sends.start_s[sends.kind == Event.SEND])
    assert starts == pytest.approx([0, 1001, 1003])
    free = DeviceConstants(0, 0, 1e3, piece_nbytes=1000, slots=3)
    sends = play(lanes(0), FAST_LINK, 3000, free, conditions=late).trace
    assert np.sort(sends.start_s[sends.kind == Event.SEND]) == pytest.approx([0, 1, 2])


def test_a_reduction_takes_longer_for_each_further_source() -> None:
    one, other = lanes(0)
    wait, copy, release = other.threads[0]
    reduce = copy._replace(kind=Kind.REDUCE, sources=(Operand(OUT, 0, 0), *copy.sources))
    both = (one, Program("mine", "all_reduce", 1, 2, 1, ((wait, reduce, release),)))
    assert play(both, FAST_LINK, 8000, UNIT).time_s == pytest.approx(100 + 5 + 8 + 5 + 8)
    slow = DeviceConstants(100, 5, 1e3, reduce_Bps=2e3)
    assert play(both, FAST_LINK, 8000, slow).time_s == pytest.approx(100 + 5 + 8 + 5 + 8 + 4)


def test_a_step_waits_for_a_step_of_another_thread_block_of_the_same_piece() -> None:
    """Rank 0's second thread block starts when its first has sent: 3 pieces, 1 s each and 1 s each."""
    one, other = lanes(0, 1)
    first, second = one.threads
    waits = (second[0]._replace(after=((0, 1),)), second[1])
    both = (Program("mine", "all_reduce", 0, 2, 2, (first, waits)), other)
    constants = DeviceConstants(0, 0, 1e3, piece_nbytes=1000, slots=8)
    sends = play(both, FAST_LINK, 6000, constants).trace
    mine = (sends.kind == Event.SEND) & (sends.channel == 1)
    assert np.sort(sends.start_s[mine]) == pytest.approx([1, 2, 3])


@pytest.mark.parametrize(("channels", "instances"), [(1, 1), (2, 2), (4, 1), (8, 1)])
@pytest.mark.parametrize("share", [1.0, 0.3])
def test_many_pieces_take_what_the_first_ones_foretell(
    tmp_path: Path, channels: int, instances: int, share: float
) -> None:
    """Played to the end, 3 times as many pieces as `seconds` plays take what it returns, within 2 %."""
    programs = load(written(tmp_path, 8, channels, instances)).programs
    constants = DeviceConstants(1e-5, 2e-6, 2e10, share, piece_nbytes=1 << 20, slices=2)
    place, nbytes = direct(8, latency_s=1e-7, bandwidth_Bps=5e10), 3 * PLAYED * instances << 23
    assert pieces_of(programs, nbytes, constants.piece_nbytes) == 3 * PLAYED
    whole_s = play(programs, place, nbytes, constants).time_s
    assert seconds(programs, place, nbytes, constants) == pytest.approx(whole_s, rel=0.02)


def test_the_bytes_on_links_are_those_of_the_programs(tmp_path: Path) -> None:
    programs = load(written(tmp_path, 4, 2)).programs
    constants = DeviceConstants(1e-5, 2e-6, 2e10, piece_nbytes=1000, slices=3)
    found = play(programs, direct(4), 40_003, constants)
    assert found.link_nbytes.sum() == 4 * 3 * 10_000
    assert found.trace.sent_nbytes().sum() == 4 * 3 * 10_000


def test_a_deadlock_names_the_rank_and_the_message() -> None:
    other = lanes(0)[1]
    silent = Program("mine", "all_reduce", 0, 2, 1, ((),))
    with pytest.raises(StuckError, match="rank 1 waits for rank 0's message"):
        play((silent, other), FAST_LINK, 8, UNIT)
