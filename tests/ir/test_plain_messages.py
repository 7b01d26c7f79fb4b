"""Programs whose messages are plain, as small calls on devices need them."""

from __future__ import annotations

import pytest

from ringtree.algorithms import build
from ringtree.ir.lower import lower
from ringtree.ir.plain_messages import PlainMessages, plain_messages
from ringtree.ir.program import Instruction, Kind, Operand, Program, Space

INPUT, OUTPUT = Operand(Space.INPUT, 0, 0), Operand(Space.OUTPUT, 0, 0)
SLOT, MESSAGE = Operand(Space.SLOT, 0, 0), Operand(Space.MESSAGE, 0, 0)
SEND = Instruction(Kind.COPY, (SLOT,), (INPUT,)), Instruction(Kind.SIGNAL, peer=1, register=0)
RECEIVE = (
    Instruction(Kind.WAIT, peer=1, register=0),
    Instruction(Kind.COPY, (OUTPUT,), (MESSAGE,)),
    Instruction(Kind.RELEASE, peer=1),
)


def program(*code: Instruction) -> list[Program]:
    return [Program("given", "all_gather", 0, 2, 2, (code,))]


@pytest.mark.parametrize(
    ("algorithm", "collective", "ranks", "found"),
    [
        ("one_shot", "all_reduce", 2, PlainMessages(1, 1, 6)),
        ("one_shot", "all_reduce", 4, PlainMessages(1, 1, 10)),
        ("ring", "all_reduce", 4, PlainMessages(6, 1, 28)),
    ],
)
def test_algorithms_have_plain_messages(algorithm: str, collective: str, ranks: int, found: PlainMessages) -> None:
    assert plain_messages(lower(build(algorithm, collective, ranks))) == found


def test_a_slot_counts_once_for_each_rank_it_is_for() -> None:
    other = Instruction(Kind.SIGNAL, peer=2, register=0)
    assert plain_messages(program(*SEND, *RECEIVE)) == PlainMessages(1, 1, 5)
    assert plain_messages(program(*SEND, other, *RECEIVE)) == PlainMessages(1, 1, 6)


ODD = {
    "a signal without bytes": (Instruction(Kind.SIGNAL, peer=1, register=-1),),
    "a slot that was not written": (SEND[1],),
    "a wait for no bytes": (Instruction(Kind.WAIT, peer=1, register=-1),),
    "a slot that is read": (*SEND, Instruction(Kind.COPY, (OUTPUT,), (SLOT,))),
    "a peer's memory": (Instruction(Kind.COPY, (OUTPUT,), (INPUT._replace(rank=1),)),),
    "a message that was not waited for": RECEIVE[1:],
}


@pytest.mark.parametrize("why", list(ODD))
def test_other_messages_are_not_plain(why: str) -> None:
    assert plain_messages(program(*ODD[why])) is None


def test_programs_of_several_threads_have_none() -> None:
    assert plain_messages([Program("given", "all_gather", 0, 2, 2, (SEND, RECEIVE))]) is None
