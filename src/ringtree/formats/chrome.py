"""Traces as Chrome's JSON, which ui.perfetto.dev and chrome://tracing open, and back without loss.

A process a rank; in it a thread a channel, one for what it sends, and one that names the calls. Slices that would
overlap on a thread are spread over several. An arrow leads from each SEND to the WAIT that takes the message. Viewers
want microseconds, here from the first event on and rounded to nanoseconds; the exact seconds are in an event's `args`.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ringtree.files.file_bytes import first_bytes
from ringtree.files.json_rows import JsonRows
from ringtree.files.json_values import printable, shown
from ringtree.files.replacing import replacing
from ringtree.formats.imported import FormatError
from ringtree.formats.lanes import Ints, lanes
from ringtree.ir import units
from ringtree.ir.host_clocks import hosts_of
from ringtree.ir.host_links import crossing
from ringtree.ir.trace import COLUMNS, Event, Trace

VERSION = 1
LARGEST_BYTES = 2**31
"""Traces beyond this, unpacked, are refused. A million events take some 300 MB."""
MOST_EVENTS = 4_000_000
"""Traces of more are refused: reading so many takes 460 MB and 10 s."""
LONGEST_S = 1e6
"""Seconds up to which a double resolves about a nanosecond."""
MOST_RANKS = 1 << 20
_KINDS = {kind.name.lower(): int(kind) for kind in Event}
_AT_ONCE = 1 << 16
"""Events that are put into words at a time."""
_GZIP_LEVEL = 2
"""A quarter larger than at 6, and three times as fast."""


def write(trace: Trace, path: str | Path) -> None:
    """Writes the trace, packed by gzip where the name ends in .gz. The same trace gives the same bytes. A file at
    `path` is replaced only when all is written. ValueError: if the trace is too long for the format. OSError: if it
    cannot be written."""
    if len(trace) and not trace.makespan_s <= LONGEST_S:
        raise ValueError(f"a trace of {trace.makespan_s:g} s cannot be written; expected at most {LONGEST_S:g} s")
    with replacing(Path(path)) as file:
        if str(path).endswith(".gz"):
            with gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0) as packed:
                _write(trace, packed)
        else:
            _write(trace, file)


def _write(trace: Trace, file: IO[bytes] | gzip.GzipFile) -> None:
    file.write(b'{"displayTimeUnit":"ns","traceEvents":[\n')
    separator = b""
    for lines in _lines(trace):
        if lines:
            file.write(separator + ",\n".join(lines).encode())
            separator = b",\n"
    other_data = {"ringtree": VERSION, "ranks": trace.ranks, "calls": trace.calls, "facts": dict(trace.facts)}
    file.write(f'\n],"otherData":{json.dumps(other_data)}}}\n'.encode())


def _lines(trace: Trace) -> Iterator[list[str]]:
    """The elements of traceEvents: the names of threads, then the calls, the events, and the arrows between them."""
    zero_s = trace.start_s.min(initial=np.inf)
    start, end = (np.rint((t - zero_s) * 1e9).astype(np.int64) for t in (trace.start_s, trace.end_s))
    sends = trace.kind == Event.SEND
    end = np.maximum(end, start + sends)  # of a slice without length, viewers draw no arrow
    thread = trace.channel.astype(np.int64) * 2 + sends
    lane = lanes(_distinct(trace.rank, thread)[1], start, end)
    threads, which = _distinct(thread, lane)
    called = trace.kind != Event.COMPUTE  # the program's own work is named where it is
    calls, above = _calls(trace.take(called), start[called], end[called]) if any(trace.calls) else ([], 0)
    tid = which + above
    yield _heads(trace, tid, {above + i: _title(*key) for i, key in enumerate(threads.tolist())})
    yield calls
    yield from _events(trace, tid, start, end)
    sent, taken = trace.messages()
    # Inside the WAIT and not before the SEND: there viewers search the slice that the arrow leads to. Without a wait it
    # is the next slice, which reads the message.
    arrives = np.clip(start[sent], start[taken], end[taken])
    yield _arrows("s", trace.rank[sent], tid[sent], start[sent])
    yield _arrows("f", trace.rank[taken], tid[taken], arrives)


def _distinct(*columns: NDArray[Any]) -> tuple[Ints, Ints]:
    """The different rows of the columns, sorted, and for each row its position among them. As numpy.unique with an
    axis, but by whole columns, which is ten times as fast."""
    rows = np.stack([column.astype(np.int64) for column in columns], axis=1)
    order = np.lexsort(rows.T[::-1])
    is_first = np.ones(len(rows), dtype=np.bool_)
    is_first[1:] = np.any(np.diff(rows[order], axis=0) != 0, axis=1)
    which = np.empty(len(rows), dtype=np.int64)
    which[order] = np.cumsum(is_first) - 1
    return rows[order[is_first]], which


def _title(thread: int, lane: int) -> str:
    again = f" ({lane + 1})" if lane else ""
    return f"channel {thread >> 1}" + (", sends" if thread & 1 else "") + again


def _heads(trace: Trace, tid: Ints, titles: dict[int, str]) -> list[str]:
    lines = []
    for rank, thread in _distinct(trace.rank, tid)[0].tolist():
        lines.append(_head("thread_name", rank, thread, name=titles[thread]))
        lines.append(_head("thread_sort_index", rank, thread, sort_index=thread))
    hosts = hosts_of(trace).tolist()
    several = len(set(hosts)) > 1
    for rank in range(trace.ranks):
        name = f"rank {rank} on host {hosts[rank]}" if several else f"rank {rank}"
        lines.append(_head("process_name", rank, 0, name=name))
        lines.append(_head("process_sort_index", rank, 0, sort_index=rank))
    return lines


def _head(what: str, pid: int, tid: int, **args: object) -> str:
    return json.dumps({"ph": "M", "pid": pid, "tid": tid, "name": what, "args": args})


def _calls(trace: Trace, start: Ints, end: Ints) -> tuple[list[str], int]:
    """A slice for each call on each rank, from its first event to its last, and how many threads they take. They are
    for display, and are not read back."""
    keys, which = _distinct(trace.rank, trace.call)
    if trace.facts.get("source") == "measured":  # without gaps: an event after a gap is of another call of that name
        which, first = _stretches(which, start, end)
        keys = keys[first]
    first = np.full(len(keys), np.iinfo(np.int64).max)
    last = np.zeros_like(first)
    np.minimum.at(first, which, start)
    np.maximum.at(last, which, end)
    lane = lanes(keys[:, 0], first, last)
    lines = []
    for rank, call, tid, begin, stop in zip(
        *keys.T.tolist(), lane.tolist(), first.tolist(), last.tolist(), strict=True
    ):
        piece = {"ph": "X", "pid": rank, "tid": tid, "ts": begin / 1e3, "dur": (stop - begin) / 1e3, "cat": "call"}
        lines.append(json.dumps({**piece, "name": trace.calls[call]}))
    for rank, tid in sorted(set(zip(keys[:, 0].tolist(), lane.tolist(), strict=True))):
        lines.append(_head("thread_name", rank, tid, name="calls" + (f" ({tid + 1})" if tid else "")))
        lines.append(_head("thread_sort_index", rank, tid, sort_index=tid))
    return lines, int(lane.max(initial=-1)) + 1


def _stretches(track: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The number of each interval's stretch, which its track's next gap ends; and the track of each stretch."""
    moment = np.unique(np.concatenate([start, end]), return_inverse=True)[1].reshape(2, -1)
    moment += track * (moment.max(initial=0) + 1)  # so that the tracks follow one another
    order = np.lexsort((moment[0], track))
    begins = np.ones(len(track), dtype=np.bool_)
    begins[1:] = moment[0][order][1:] > np.maximum.accumulate(moment[1][order])[:-1]
    stretch = np.empty(len(track), dtype=np.int64)
    stretch[order] = np.cumsum(begins) - 1
    return stretch, track[order[begins]]


def _events(trace: Trace, tid: Ints, start: Ints, end: Ints) -> Iterator[list[str]]:
    """The events, one a line. Built from columns: a text that many events share is made once."""
    own_work = np.where(trace.kind == Event.COMPUTE, trace.call, -1)
    host = np.where(crossing(trace), hosts_of(trace)[trace.peer], -1)
    shared, which = _distinct(trace.kind, trace.nbytes, trace.peer, own_work, host)
    words = [_words(k, n, p, trace.calls[call] if call >= 0 else "", h) for k, n, p, call, h in shared.tolist()]
    for at in range(0, len(trace), _AT_ONCE):
        part = slice(at, at + _AT_ONCE)
        numbers = (trace.rank, tid, start / 1e3, (end - start) / 1e3, which)
        exact = (trace.channel, trace.chunk, trace.call, trace.start_s, trace.end_s)
        yield [
            f'{{"ph":"X","pid":{r},"tid":{t},"ts":{ts:.3f},"dur":{dur:.3f},{words[w]},"channel":{channel},"chunk":{chunk},'
            f'"call":{call},"start_s":{start_s!r},"end_s":{end_s!r}}}}}'
            for r, t, ts, dur, w, channel, chunk, call, start_s, end_s in zip(
                *(column[part].tolist() for column in (*numbers, *exact)), strict=True
            )
        ]


def _words(kind: int, nbytes: int, peer: int, own_work: str, host: int) -> str:
    """The middle of an event's line: its name, its category and the first of its args. `host`: of the receiver of a
    message between hosts, else -1."""
    name = Event(kind).name.lower()
    size, from_peer = units.size(nbytes), f" from {peer}" if peer >= 0 else ""
    title = {
        Event.COPY: f"copy {size}{from_peer}",
        Event.REDUCE: f"reduce {size}{from_peer}",
        Event.SEND: f"send {size} to {peer}" + (f" on host {host}" if host >= 0 else ""),
        Event.WAIT: f"wait for {peer}",
        Event.STALL: f"stall: no room until {peer} gives back" if peer >= 0 else "stall: no room",
        Event.COMPUTE: own_work,
    }[Event(kind)]
    return f'"name":{json.dumps(title)},"cat":"{name}","args":{{"nbytes":{nbytes},"peer":{peer}'


def _arrows(phase: str, rank: NDArray[np.int32], tid: Ints, at: Ints) -> list[str]:
    """One end of each message's arrow."""
    tail = '"name":"message","cat":"message","bp":"e"}'
    columns = (rank.tolist(), tid.tolist(), (at / 1e3).tolist())
    return [
        f'{{"ph":"{phase}","id":{i},"pid":{r},"tid":{t},"ts":{ts:.3f},{tail}'
        for i, (r, t, ts) in enumerate(zip(*columns, strict=True))
    ]


def is_trace(path: str | Path) -> bool:
    """Whether a file is a Chrome trace, ringtree's or not, by its first bytes."""
    head = first_bytes(path, 1 << 16, unpack=True)
    return head.lstrip()[:1] in (b"{", b"[") and b'"traceEvents"' in head


def read(path: str | Path) -> Trace:
    """The trace that `write` wrote to a file, packed or not. FormatError, in one line: if the file is no such trace."""
    path = Path(path)
    columns, other = _read(path)
    if not isinstance(other, dict) or "ringtree" not in other:
        raise FormatError(f"{path}: not a trace of ringtree's; expected Chrome's JSON with otherData.ringtree")
    if other["ringtree"] != VERSION:
        raise FormatError(f"{path}: otherData.ringtree is {shown(other['ringtree'])}; expected {VERSION}")
    if columns is None:
        raise FormatError(f"{path}: traceEvents: expected a list")
    ranks, calls, facts = other.get("ranks"), other.get("calls"), other.get("facts")
    if type(ranks) is not int or not 0 <= ranks <= MOST_RANKS:
        raise FormatError(
            f"{path}: otherData.ranks is {shown(ranks)}; expected a number of ranks, at most {MOST_RANKS}"
        )
    if not isinstance(calls, list) or not all(isinstance(name, str) for name in calls):
        raise FormatError(f"{path}: otherData.calls: expected a list of names")
    if not isinstance(facts, dict) or not all(isinstance(value, str) for value in facts.values()):
        raise FormatError(f"{path}: otherData.facts: expected texts by name")
    if isinstance(columns, FormatError):
        raise columns
    try:
        names = {printable(name): printable(value) for name, value in facts.items()}
        trace = Trace.of(ranks, **columns, calls=[*map(printable, calls)], facts=names)
    except ValueError as e:
        raise FormatError(f"{path}: {e}") from None
    with np.errstate(over="ignore"):
        makespan_s = trace.makespan_s
    if makespan_s > LONGEST_S:
        raise FormatError(f"{path}: a trace of {makespan_s:g} s; expected at most {LONGEST_S:g} s")
    return trace


def _read(path: Path) -> tuple[dict[str, NDArray[Any]] | FormatError | None, Any]:
    """The events' columns, or the first mistake in them, or None where there is no list of them; and otherData, which
    tells a trace with a mistake from a file that is none of ringtree's."""
    parts: list[dict[str, NDArray[Any]]] = []
    mistake, events = None, 0
    rows = JsonRows(path, "traceEvents", "a trace", LARGEST_BYTES, unpack=True)
    try:
        for at, elements in rows:
            try:
                parts += [] if mistake else [_columns(path, elements, at)]
            except FormatError as error:
                mistake = error
            events += len(parts[-1]["rank"]) if parts and not mistake else 0
            if events > MOST_EVENTS:
                raise FormatError(f"{path}: more than {MOST_EVENTS:,} events; expected a trace of fewer")
    except ValueError as error:
        raise FormatError(str(error)) from None
    other = rows.rest.get("otherData") if isinstance(rows.rest, dict) else None
    if mistake or not parts:
        return mistake, other
    return {name: np.concatenate([part[name] for part in parts]) for name in COLUMNS}, other


def _columns(path: Path, elements: list[Any], at: int) -> dict[str, NDArray[Any]]:
    """The events' columns of the elements from number `at` on. All at once where all is well; element by element to
    find a mistake."""
    try:
        events = [e for e in elements if e["ph"] == "X" and e["cat"] != "call"]
        args = [e["args"] for e in events]
        columns = {name: [a[name] for a in args] for name in COLUMNS if name not in ("rank", "kind")}
        columns["rank"] = [e["pid"] for e in events]
        columns["kind"] = [_KINDS[e["cat"]] for e in events]
        return {name: _column(columns[name], dtype) for name, dtype in COLUMNS.items()}
    except (KeyError, TypeError, IndexError, ValueError, OverflowError):
        pass
    for number, element in enumerate(elements, at):
        _check(f"{path}: traceEvents[{number}]", element)
    raise FormatError(f"{path}: traceEvents: expected events as ringtree writes them")


def _column(values: list[Any], dtype: type[np.generic]) -> NDArray[Any]:
    """The values, which must be numbers that fit."""
    found = np.array(values) if values else np.zeros(0, dtype)
    if found.ndim != 1 or found.dtype.kind not in ("i" if issubclass(dtype, np.integer) else "if"):
        raise TypeError
    if issubclass(dtype, np.integer) and len(found):
        limits = np.iinfo(dtype)
        if found.min() < limits.min or found.max() > limits.max:
            raise OverflowError
    return found.astype(dtype)


def _check(where: str, element: Any) -> None:
    """FormatError for an element that is no event of ringtree's, though it should be."""
    if not isinstance(element, dict) or "ph" not in element:
        raise FormatError(f"{where} is {shown(element)}; expected an object with 'ph'")
    if element["ph"] != "X" or element.get("cat") == "call":
        return
    if not isinstance(element.get("cat"), str) or element["cat"] not in _KINDS:
        raise FormatError(f"{where}: cat is {shown(element.get('cat'))}; expected one of {', '.join(_KINDS)}")
    args = element.get("args")
    if not isinstance(args, dict):
        raise FormatError(f"{where}: args is {shown(args)}; expected an object")
    for name, dtype in COLUMNS.items():
        if name == "kind":
            continue
        value = element.get("pid") if name == "rank" else args.get(name)
        try:
            _column([value], dtype)
        except (TypeError, ValueError, OverflowError):
            kind = f"a whole number of {np.iinfo(dtype).bits} bits" if issubclass(dtype, np.integer) else "seconds"
            name = "pid" if name == "rank" else f"args.{name}"
            raise FormatError(f"{where}: {name} is {shown(value)}; expected {kind}") from None
