"""Mismatched calls: what the culprit does in place of a step that all other ranks make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeGuard

from tests.runtime.soak.exchanges import between
from tests.runtime.soak.script import Call, Exchange, Open, ScriptedMessage, Step
from tests.runtime.soak.values import MOST_OTHERS

ROOTED = ("broadcast", "reduce", "gather", "scatter")
REDUCING = ("all_reduce", "reduce", "reduce_scatter", "scan", "exscan")
REDUCTIONS = {"sum": "max", "max": "min", "min": "sum"}
NO_MESSAGES_TAG = 1 << 30
"""More than any tag of a script."""

Deviation = Callable[[list[Step], int, int, int], list[Step] | None]
"""(script, position, ranks of the step's group, the culprit's rank there) -> the steps in place of those from there on;
None where that step has no deviation of this kind."""


def _operation(script: list[Step], at: int, *_: int) -> list[Step] | None:
    step = script[at]
    if not isinstance(step, Call) or step.cuts:
        return None
    other = "all_to_all" if step.collective == "all_reduce" else "all_reduce"
    return [replace(step, collective=other, place="new"), *script[at + 1 :]]


def _type(script: list[Step], at: int, *_: int) -> list[Step] | None:
    step = script[at]
    if not _has_data(step) or step.count > MOST_OTHERS:
        return None
    other = "int32" if step.dtype == "float32" else "float32"
    return [replace(step, dtype=other), *script[at + 1 :]]


def _count(script: list[Step], at: int, ranks: int, _: int) -> list[Step] | None:
    step = script[at]
    if not _has_data(step):
        return None
    more = ranks if step.count < 2 * ranks else -ranks  # a block of each rank is an element longer, or shorter
    return [replace(step, count=step.count + more), *script[at + 1 :]]


def _root(script: list[Step], at: int, ranks: int, _: int) -> list[Step] | None:
    step = script[at]
    if not _has_data(step) or step.collective not in ROOTED:
        return None
    return [replace(step, root=step.root % ranks + 1), *script[at + 1 :]]


def _reduction(script: list[Step], at: int, *_: int) -> list[Step] | None:
    step = script[at]
    if not _has_data(step) or step.collective not in REDUCING:
        return None
    return [replace(step, op=REDUCTIONS[step.op]), *script[at + 1 :]]


def _order(script: list[Step], at: int, *_: int) -> list[Step] | None:
    if not _differ_on_one_group(script, at):
        return None
    return [script[at + 1], script[at], *script[at + 2 :]]


def _skipped(script: list[Step], at: int, *_: int) -> list[Step] | None:
    return script[at + 1 :] if _differ_on_one_group(script, at) else None


def _extra(script: list[Step], at: int, *_: int) -> list[Step] | None:
    step = script[at]
    if not _has_data(step):
        return None
    return [replace(step, collective="barrier", later=False), *script[at:]]


def _message_size(script: list[Step], at: int, ranks: int, rank: int) -> list[Step] | None:
    step = script[at]
    if not isinstance(step, Exchange) or step.style == "objects":
        return None
    return _with_another_message(script, at, ranks, rank, lambda message: replace(message, count=message.count + 1))


def _message_tag(script: list[Step], at: int, ranks: int, rank: int) -> list[Step] | None:
    step = script[at]
    if not isinstance(step, Exchange) or len({message.tag for message in step.messages}) < len(step.messages):
        return None  # of messages with one tag, the next one would come in its place, and nobody could notice
    return _with_another_message(script, at, ranks, rank, lambda message: replace(message, tag=NO_MESSAGES_TAG))


def _group(script: list[Step], at: int, *_: int) -> list[Step] | None:
    step = script[at]
    if not isinstance(step, Open) or step.how == "pair":
        return None
    return [Open("reversed" if step.how == "duplicate" else "duplicate"), *script[at + 1 :]]


DEVIATIONS: dict[str, Deviation] = {
    "operation": _operation,
    "type": _type,
    "count": _count,
    "root": _root,
    "reduction": _reduction,
    "order": _order,
    "skipped call": _skipped,
    "extra call": _extra,
    "message size": _message_size,
    "message tag": _message_tag,
    "group": _group,
}


def _has_data(step: Step) -> TypeGuard[Call]:
    return isinstance(step, Call) and step.collective != "barrier" and not step.cuts


def _differ_on_one_group(script: list[Step], at: int) -> bool:
    """Whether this step and the next are calls of one group that a rank can tell apart."""
    if at + 1 >= len(script):
        return False
    one, next_one = script[at], script[at + 1]
    if not isinstance(one, Call) or not isinstance(next_one, Call) or one.group != next_one.group:
        return False
    return not one.cuts and not next_one.cuts and one.collective != next_one.collective


def _with_another_message(
    script: list[Step], at: int, ranks: int, rank: int, other: Callable[[ScriptedMessage], ScriptedMessage]
) -> list[Step] | None:
    """With another first message that this rank sends or receives."""
    step = script[at]
    assert isinstance(step, Exchange)
    messages = list(step.messages)
    for i, message in enumerate(messages):
        if step.style == "in a circle" or rank in (between(message, ranks).source, between(message, ranks).target):
            messages[i] = other(message)
            return [replace(step, messages=tuple(messages)), *script[at + 1 :]]
    return None
