"""Waits of MSCCL XML for steps of other thread blocks, as its runtimes count steps and announce their ends."""

from __future__ import annotations

import pytest

from ringtree.formats import FormatError, load
from tests.formats.test_msccl import accept
from tests.formats.writing import Block, algo, write


def with_steps(*blocks: list[str]) -> str:
    """A program of one gpu whose thread blocks have no peers."""
    return algo([[(-1, -1, steps) for steps in blocks]], 1, scratch=4)


WAITS = with_steps(["cpy i0 s0"], ["cpy s0 s1 after 0.0"])
ANNOUNCED_LATER = with_steps(["cpy i0 s0", "cpy i0 s2"], ["cpy s0 s1 after 0.1"]).replace('deps="1"', 'deps="0"')


def test_nops_carry_their_dependences_on(tmp_path):
    """A nop waits for a step; what comes after it waits too, and what waits for the nop waits for that."""
    gpus: list[list[Block]] = [
        [
            (1, -1, ["s i0 i0"]),
            (-1, 1, ["r i0 s0"]),
            (-1, -1, ["nop after 0.0", "re s0 i0 after 1.0"]),
            (-1, -1, ["cpy s0 s1 after 2.0"]),
        ],
        [(0, 0, ["s i0 i0", "rrc i0 i0"])],
    ]
    _, programs = accept(tmp_path, algo(gpus, 1, scratch=2))
    waits = {(0, 1), (1, 2)}  # the signal of the send, the release of the receive
    third, fourth = programs[0].threads[2:4]
    assert {tuple(a) for a in third[0].after} == waits
    assert {tuple(a) for a in fourth[0].after} == {(2, 0)}


@pytest.mark.parametrize("text", [WAITS, WAITS.replace(' hasdep="1"', ""), ANNOUNCED_LATER])
def test_a_wait_ends_with_the_next_step_that_is_announced(text, tmp_path):
    """A file that has no hasdep, as the older syntax allows, announces all of its steps."""
    accept(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            WAITS.replace('hasdep="1"', 'hasdep="0"'),
            "tb 1 step 0 .*: deadlock: waits for tb 0 step 0, whose end nobody",
        ),
        (
            with_steps(["cpy i0 s0", "nop"], ["cpy s0 s1 after 0.1"]),
            "tb 1 step 0 .*: deadlock: waits for tb 0 step 1, whose end nobody announces",
        ),
        (
            with_steps(["nop", "cpy i0 s0"], ["cpy s0 s1 after 0.1"]),
            r"tb 0 step 0 \(nop\), line 4: waits for nothing, so runtimes leave it out and number the steps after it",
        ),
        (
            with_steps(["cpy i0 s0"], ["nop after 0.0", "cpy s0 s1"]),
            r"tb 1 step 1 \(cpy\), line 8: waits for nothing behind a nop that does; expected the last of",
        ),
        (WAITS.replace('<tb id="1"', '<tb id="7"'), "gpu 0: tb ids 0, 7; expected 0..1, each once"),
    ],
)
def test_a_wait_that_runtimes_refuse_or_never_end_is_refused(text, message, tmp_path):
    with pytest.raises(FormatError, match=f"test.xml: .*{message}"):
        load(write(tmp_path, text))


def test_a_nop_that_waits_for_nothing_before_what_nobody_waits_for_is_left_out(tmp_path):
    accept(tmp_path, with_steps(["nop", "cpy i0 s0"], ["cpy i0 s1"]))
