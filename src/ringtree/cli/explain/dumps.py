"""`ringtree explain DUMPS…`: who diverged first and how, and who waits for whom, in words and as JSON."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from ringtree.cli.arguments.destination import check_destination
from ringtree.files.replacing import replace_with_json
from ringtree.formats.flight.divergence import Findings, Hang, HangKind, compare
from ringtree.formats.flight.dumps import Dump, Operation, read

MOST_FRAMES = 4
"""Frames of a stack that is shown."""
OWN = ("/ringtree/runtime/", "/ringtree/torch_backend/", "/torch/distributed/", "/threading.py")
"""Files whose frames are left out at the inner end of a stack."""


def run(files: Sequence[Path], json: Path | None) -> int:
    """Prints what the dumps show. Returns the exit code."""
    if json:
        check_destination(json, *files)
    found = compare([read(file) for file in files])
    for line in lines(found):
        print(line)
    if json:
        replace_with_json(json, record(found))
    return 0


def lines(found: Findings) -> Iterator[str]:
    """The report."""
    yield from _head(found)
    yield ""
    if found.circle:
        yield "deadlock: each waits for a rank that waits in the next call"
        for hang in found.circle:
            yield from _hang(found, hang, "  ")
    for number, hang in enumerate(found.first):
        yield f"{'also' if number else 'first divergence'}: {_headline(hang)}"
        yield from _details(found, hang)
    if not found.hangs:
        yield "no rank waits: every call that was recorded has ended"
    others = [hang for hang in found.hangs if hang not in (*found.first, *found.circle)]
    if others:
        yield ""
        yield "that holds up:"
        for hang in others:
            yield from _hang(found, hang, "  ")
    for hang in found.differed:
        yield f"note: {_headline(hang)}, and the call ended all the same"


def _head(found: Findings) -> Iterator[str]:
    dumps = found.dumps
    writers = sorted({dump.writer for dump in dumps if dump.writer})
    groups = {(channel.group.name, channel.ranks) for channel in found.channels if not channel.is_messages}
    by = f" by {', '.join(writers)}" if writers else ""
    yield f"# dumps of {_ranks([dump.rank for dump in dumps])}{by}; groups with collectives: {len(groups)}"
    if missing := sorted({rank for channel in found.channels for rank in channel.ranks} - {d.rank for d in dumps}):
        yield f"# no dump of {_ranks(missing)}"
    spans = [(d, *_span(d)) for d in dumps if d.operations]
    for dump, _, end in spans:
        begins = [(begin, other) for other, begin, _ in spans if begin > end > 0]
        if len(begins) == len(spans) - 1 > 0:
            yield f"# rank {dump.rank}'s dump ends before the others begin: is it of an earlier job? {dump.path}"


def _span(dump: Dump) -> tuple[int, int]:
    return (
        min(o.begun_ns for o in dump.operations),
        max(max(o.begun_ns, o.ended_ns) for o in dump.operations),
    )


def _headline(hang: Hang) -> str:
    if hang.kind is HangKind.MISMATCH:
        return f"{_mismatch(hang)} as {_where(hang)}"
    call = f"{_call(hang.calls[hang.waiting[0]])}, {_where(hang)}"
    if hang.kind is HangKind.MISSING and _from_anyone(hang):
        return f"nobody sent to {_ranks(hang.waiting)} in {call}"
    if hang.kind is HangKind.MISSING and hang.channel.is_messages:
        lacks = "receive" if hang.calls[hang.waiting[0]][0].name == "send" else "send"
        return f"{_ranks(hang.absent)} made no {lacks} for {call}"
    if hang.kind is HangKind.MISSING:
        return f"{_ranks(hang.absent)} never came to {call}"
    if hang.kind is HangKind.NO_DUMP:
        return f"{_ranks(hang.undumped)} left no dump, and {call} did not end"
    return f"all ranks came to {call}, alike, and it did not end for {_ranks(hang.waiting)}"


def _from_anyone(hang: Hang) -> bool:
    part = hang.calls[hang.waiting[0]][0]
    return part.is_message and part.source == part.target


def _mismatch(hang: Hang) -> str:
    odd = hang.culprits
    classes = sorted(hang.classes, key=lambda ranks: not set(ranks) <= set(odd))
    called = [f"{_ranks(ranks)} called {_call(hang.calls[ranks[0]])}" for ranks in classes]
    return f"{', '.join(called[:-1])} and {called[-1]}"


def _where(hang: Hang) -> str:
    channel = hang.channel
    if channel.is_messages:
        return f"message {hang.number} of {channel.group.name}"
    return f"sequence number {hang.number} of group {channel.group}"


def _call(parts: Sequence[Operation]) -> str:
    named = [part for part in parts if part.name != "coalesced"] or list(parts)
    return str(named[0]) if len(named) == 1 else f"{len(named)} coalesced calls, the first {named[0]}"


def _details(found: Findings, hang: Hang) -> Iterator[str]:
    if hang.shift:
        did = "left out the call that the others made there" if hang.shift > 0 else "made one call more than the others"
        yield f"  it seems that {_ranks(hang.classes[1])} {did}: the calls of the next number fit"
    if hang.waiting:
        yield f"  {_waits(hang)}"
    if hang.kind is HangKind.MISSING and hang.undumped:
        yield f"  no dump of {_ranks(hang.undumped)}, which may be missing, too"
    if hang.kind is HangKind.NO_DUMP:
        yield "  a rank that died leaves none; its file may also be on another host, or not among these"
    for rank in hang.culprits[:MOST_FRAMES]:
        yield from _whereabouts(found, hang, rank)
    if hang.kind is HangKind.MISMATCH:
        for ranks in hang.classes[:MOST_FRAMES]:
            yield from _called_at(ranks[0], hang.calls[ranks[0]][0])


def _waits(hang: Hang) -> str:
    verb = "waits" if len(hang.waiting) == 1 else "wait"
    since = f" since {_time(hang.begun_ns)}" if hang.begun_ns else ""
    timeout = max(part.timeout_s for parts in hang.calls.values() for part in parts)
    limit = f", with a timeout of {timeout:g} s" if timeout else ""
    missing = tuple(sorted({*hang.absent, *hang.undumped}))
    whom = f" for {_ranks(missing)}" if missing and not _from_anyone(hang) else ""
    return f"{_ranks(hang.waiting)} {verb}{whom}{since}{limit}"


def _whereabouts(found: Findings, hang: Hang, rank: int) -> Iterator[str]:
    """Lines on a rank that others wait for: its last calls, and where it is."""
    dump = next((dump for dump in found.dumps if dump.rank == rank), None)
    if dump is None or rank in hang.calls:
        return
    last = found.last(rank, hang.channel)
    if last is None:
        yield f"  rank {rank} made no call in this group"
    else:
        ended = "ended" if last.completed else "not ended"
        yield f"  rank {rank}'s last call in this group: {last}, number {last.number}, {ended}"
    held = found.held(rank)
    if held is not None:
        yield f"  rank {rank} is in {_call(held.calls[rank])}, {_where(held)}"
    elif dump.operations and dump.operations[-1] is not last:
        newest = dump.operations[-1]
        yield f"  rank {rank}'s last call of all: {newest}, number {newest.number} of group {newest.group}"
    stack = next((frames for name, frames in dump.stacks if name == "MainThread"), ())
    own = next((i for i, frame in enumerate(stack) if not any(part in frame for part in OWN)), 0)
    for frame in stack[own : own + MOST_FRAMES]:
        yield f"    at {frame}"


def _called_at(rank: int, part: Operation) -> Iterator[str]:
    own = (frame for frame in part.frames if not any(folder in frame for folder in OWN))
    if frame := next(own, None):
        yield f"  rank {rank}'s call: at {frame}"


def _hang(found: Findings, hang: Hang, margin: str) -> Iterator[str]:
    yield f"{margin}{_waits(hang)}: {_call(hang.calls[hang.waiting[0]])}, {_where(hang)}"


def _ranks(ranks: Iterable[int]) -> str:
    """As in "rank 3", "ranks 0-2, 5"."""
    found = sorted(ranks)
    runs = [[r for _, r in run] for _, run in groupby(enumerate(found), lambda pair: pair[1] - pair[0])]
    shown = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return f"rank{'s' * (len(found) > 1)} {', '.join(shown[:20])}{', ...' * (len(shown) > 20)}"


def _time(at_ns: int) -> str:
    try:
        at = datetime.datetime.fromtimestamp(at_ns / 1e9, datetime.timezone.utc)
    except (OverflowError, ValueError, OSError):
        return f"{at_ns} ns"
    return at.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"


def record(found: Findings) -> dict[str, Any]:
    """The report as JSON."""
    return {
        "ranks": [dump.rank for dump in found.dumps],
        "first": [_record(hang) for hang in found.first],
        "deadlock": [_record(hang) for hang in found.circle],
        "hangs": [_record(hang) for hang in found.hangs],
        "differed": [_record(hang) for hang in found.differed],
    }


def _record(hang: Hang) -> dict[str, Any]:
    return {
        "kind": hang.kind.value,
        "group": hang.channel.group.name,
        "description": hang.channel.group.description,
        "ranks": list(hang.channel.ranks),
        "number": hang.number,
        "culprits": list(hang.culprits),
        "waiting": list(hang.waiting),
        "absent": list(hang.absent),
        "no_dump": list(hang.undumped),
        "begun_ns": hang.begun_ns,
        "calls": [{"ranks": list(ranks), "call": _call(hang.calls[ranks[0]])} for ranks in hang.classes],
    }
