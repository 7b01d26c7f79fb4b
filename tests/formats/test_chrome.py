"""A trace goes through Chrome's JSON without loss; its viewers get slices that do not overlap, and arrows."""

from __future__ import annotations

import gzip
import json
import os
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.algorithms import build
from ringtree.files.json_values import printable
from ringtree.formats import FormatError, chrome
from ringtree.ir.host_clocks import HostClock, clock_facts, hosts_fact
from ringtree.ir.text import format_schedule
from ringtree.ir.trace import COLUMNS, Event, Trace

US = 1e-6


def exchange() -> Trace:
    """Two ranks send each other 64 KiB; rank 1 starts late and has no room at first."""
    rows = [
        (0, Event.COPY, 0.0, 2.0, -1),
        (0, Event.SEND, 2.0, 9.0, 1),
        (0, Event.WAIT, 2.0, 14.5, 1),
        (0, Event.REDUCE, 14.5, 16.0, 1),
        (1, Event.STALL, 5.0, 7.0, 0),
        (1, Event.SEND, 7.0, 14.0, 0),
        (1, Event.SEND, 7.5, 14.5, 0),  # under way at the same time; nobody waits for it
        (1, Event.WAIT, 9.5, 9.5, 0),
    ]
    rank, kind, start, end, peer = (np.array(column) for column in zip(*rows, strict=True))
    return Trace.of(
        2, rank, kind, start * US, end * US, nbytes=65536, peer=peer, chunk=3,
        calls=["all_reduce(float32, sum, count 16384)"], facts={"source": "simulated", "name": "a < b, \"c\" → ü"},
    )  # fmt: skip


def same(a: Trace, b: Trace) -> bool:
    alike = (a.ranks, a.calls, dict(a.facts)) == (b.ranks, b.calls, dict(b.facts))
    columns = ((getattr(a, name), getattr(b, name)) for name in COLUMNS)
    return alike and all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in columns)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Anything that a Trace may be, with names that a terminal may have."""
    text = st.text(max_size=5).map(printable)
    ranks = draw(st.integers(1, 4))
    rank, time = st.integers(0, ranks - 1), st.floats(-1e5, 1e5) | st.floats(0, 1e-4)
    i32, i63 = st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**63 - 1)
    calls = draw(st.lists(text, min_size=1, max_size=3))
    row = st.tuples(rank, st.sampled_from(Event), time, time, i63, rank, i32, i32, st.integers(0, len(calls) - 1))
    rows = draw(st.lists(row, min_size=1, max_size=12))
    rank, kind, a, b, nbytes, peer, chunk, channel, call = map(np.array, zip(*rows, strict=True))
    columns = {"nbytes": nbytes, "peer": peer, "chunk": chunk, "channel": channel, "call": call}
    facts = draw(st.dictionaries(text, text, max_size=2))
    return Trace.of(ranks, rank, kind, np.minimum(a, b), np.maximum(a, b), **columns, calls=calls, facts=facts)


@given(traces(), st.booleans())
def test_any_trace_reads_back_equal(tmp_path_factory: pytest.TempPathFactory, trace: Trace, packed: bool) -> None:
    path = tmp_path_factory.getbasetemp() / ("any.json.gz" if packed else "any.json")
    chrome.write(trace, path)
    assert same(chrome.read(path), trace)
    assert chrome.is_trace(path)
    slices = slices_by_thread(json.loads(gzip.decompress(path.read_bytes()) if packed else path.read_bytes()))
    for intervals in slices.values():
        last = -1.0
        for start, end in sorted(intervals):
            assert start >= last or end == start
            last = max(last, end)


def slices_by_thread(document: dict[str, Any]) -> dict[tuple[int, int], list[tuple[float, float]]]:
    """(start, end) in nanoseconds."""
    found = defaultdict(list)
    for e in document["traceEvents"]:
        if e["ph"] == "X":
            found[e["pid"], e["tid"]].append((round(e["ts"] * 1e3), round(e["ts"] * 1e3) + round(e["dur"] * 1e3)))
    return found


def test_the_empty_trace(tmp_path: Path) -> None:
    chrome.write(Trace.of(3, [], [], [], []), tmp_path / "empty.json")
    assert same(chrome.read(tmp_path / "empty.json"), Trace.of(3, [], [], [], []))


def test_the_events_that_a_viewer_gets(tmp_path: Path) -> None:
    chrome.write(exchange(), tmp_path / "x.json")
    events = json.loads((tmp_path / "x.json").read_text())["traceEvents"]
    names = {(e["name"], e["pid"], e["tid"]): e["args"].get("name") for e in events if e["ph"] == "M"}
    assert [names["process_name", rank, 0] for rank in (0, 1)] == ["rank 0", "rank 1"]
    threads = [names["thread_name", 1, tid] for tid in range(4)]
    assert threads == ["calls", "channel 0", "channel 0, sends", "channel 0, sends (2)"]
    shown = [(e["name"], names["thread_name", e["pid"], e["tid"]], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert shown == [
        ("all_reduce(float32, sum, count 16384)", "calls", 0, 16),
        ("all_reduce(float32, sum, count 16384)", "calls", 5, 9.5),
        ("copy 64 KiB", "channel 0", 0, 2),
        ("send 64 KiB to 1", "channel 0, sends", 2, 7),
        ("wait for 1", "channel 0", 2, 12.5),
        ("reduce 64 KiB from 1", "channel 0", 14.5, 1.5),
        ("stall: no room until 0 gives back", "channel 0", 5, 2),
        ("send 64 KiB to 0", "channel 0, sends", 7, 7),
        ("send 64 KiB to 0", "channel 0, sends (2)", 7.5, 7),
        ("wait for 0", "channel 0", 9.5, 0),
    ]
    arrows = [(e["ph"], e["id"], e["pid"], e["ts"]) for e in events if e["ph"] in "sf"]
    assert sorted(arrows, key=lambda a: a[1]) == [("s", 0, 0, 2), ("f", 0, 1, 9.5), ("s", 1, 1, 7), ("f", 1, 0, 7)]


def test_hosts_and_messages_between_them_are_named(tmp_path: Path) -> None:
    """In the names that a viewer shows, and in facts, which every reader of the format keeps."""
    facts = hosts_fact([0, 7]) | clock_facts({7: HostClock(12.5, 1e-7, 3e-6)})
    trace = replace(exchange(), facts=facts)
    chrome.write(trace, tmp_path / "t.json")
    names = {element.get("name") for element in json.loads((tmp_path / "t.json").read_text())["traceEvents"]}
    assert {"send 64 KiB to 1 on host 7", "send 64 KiB to 0 on host 0", "wait for 1"} <= names
    heads = (tmp_path / "t.json").read_text()
    assert '"rank 1 on host 7"' in heads and '"rank 0 on host 0"' in heads
    assert same(trace, chrome.read(tmp_path / "t.json"))


def test_calls_of_one_name_are_distinguished_where_a_run_shows_it(tmp_path: Path) -> None:
    """A rank leaves no gap in a call, and another rank's events do not fill one."""
    times = [0, 1, 2, 5, 6, 0], [1, 2, 4, 6, 7, 7]
    for source, expected in (("measured", [(0, 0, 4), (0, 5, 2), (1, 0, 7)]), ("simulated", [(0, 0, 7), (1, 0, 7)])):
        ranks = [0, 0, 0, 0, 0, 1]
        trace = Trace.of(2, ranks, Event.COPY, *np.array(times) * US, calls=["again"], facts={"source": source})
        chrome.write(trace, tmp_path / "x.json")
        events = json.loads((tmp_path / "x.json").read_text())["traceEvents"]
        assert [(e["pid"], e["ts"], e["dur"]) for e in events if e.get("cat") == "call"] == expected


def test_the_same_trace_gives_the_same_bytes(tmp_path: Path) -> None:
    one, two = tmp_path / "one.json.gz", tmp_path / "two.json.gz"
    chrome.write(exchange(), one)
    chrome.write(exchange(), two)
    assert one.read_bytes() == two.read_bytes()
    assert one.read_bytes()[3:8] == bytes(5)  # gzip's head has no name and no time


def test_a_file_written_again_by_another_tool_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    chrome.write(exchange(), path)
    path.write_text(json.dumps(json.loads(path.read_text()), indent=2, sort_keys=True))
    assert same(chrome.read(path), exchange())


def test_the_old_file_stays_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.json"
    path.write_text("mine")
    with pytest.raises(ValueError, match="expected at most"):
        chrome.write(Trace.of(1, 0, Event.COPY, [0.0, 1e9], 1e9), path)
    monkeypatch.setattr(chrome, "_events", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        chrome.write(exchange(), path)
    assert [p.read_text() for p in tmp_path.iterdir()] == ["mine"]


def broken(change: str) -> bytes:
    """A good file, changed."""
    document = {
        "otherData": {"ringtree": 1, "ranks": 2, "calls": [""], "facts": {}},
        "traceEvents": [
            {"ph": "M", "pid": 0, "name": "process_name", "args": {"name": "rank 0"}},
            {
                "ph": "X", "pid": 0, "tid": 0, "ts": 0, "dur": 1, "name": "copy", "cat": "copy",
                "args": {
                    "nbytes": 4, "peer": -1, "channel": 0, "chunk": 0, "call": 0, "start_s": 0.0, "end_s": 1e-6,
                },
            },
        ],
    }  # fmt: skip
    exec(change, {"d": document, "e": document["traceEvents"][1], "a": document["traceEvents"][1]["args"]})
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("d.pop('otherData')", "not a trace of ringtree's; expected Chrome's JSON with otherData.ringtree"),
        ("d['otherData'] = []", "not a trace of ringtree's"),
        ("d['otherData']['ringtree'] = 2", "otherData.ringtree is 2; expected 1"),
        ("d['otherData']['ranks'] = -1", "otherData.ranks is -1; expected a number of ranks"),
        ("d['otherData']['ranks'] = 2**31 - 1", "otherData.ranks is 2147483647; expected a number of ranks, at most"),
        ("d['otherData']['ranks'] = 1e400", "otherData.ranks is inf; expected"),
        ("d['otherData']['calls'] = [1]", "otherData.calls: expected a list of names"),
        ("d['otherData']['facts'] = {'x': 1}", "otherData.facts: expected texts by name"),
        ("d['traceEvents'] = {}", "traceEvents: expected a list"),
        ("d['traceEvents'][0] = 7", r"traceEvents\[0\] is 7; expected an object with 'ph'"),
        ("e['cat'] = 'spam'", r"traceEvents\[1\]: cat is 'spam'; expected one of copy, reduce, send, wait, stall"),
        ("e['cat'] = ['copy']", r"traceEvents\[1\]: cat is \['copy'\]"),
        ("e.pop('cat')", r"traceEvents\[1\]: cat is None"),
        ("e.pop('args')", r"traceEvents\[1\]: args is None; expected an object"),
        ("e.pop('pid')", r"traceEvents\[1\]: pid is None; expected a whole number of 32 bits"),
        ("e['pid'] = 2", r"event 0 \(rank 2, .*expected a rank of 0..1"),
        ("e['pid'] = 10**30", "pid is 1000000000000000000000000000000; expected a whole number"),
        ("a['nbytes'] = 10**400", "args.nbytes is 1000.*; expected a whole number of 64 bits"),
        ("a['nbytes'] = -1", "expected no negative bytes"),
        ("a['nbytes'] = 1.5", "args.nbytes is 1.5; expected a whole number"),
        ("a['nbytes'] = True", "args.nbytes is True; expected a whole number"),
        ("a['start_s'] = 'now'", "args.start_s is 'now'; expected seconds"),
        ("a['start_s'] = [0]", r"args.start_s is \[0\]; expected seconds"),
        ("a['start_s'] = 10**400", "args.start_s is 1000.*; expected seconds"),
        ("a['start_s'] = 2e-6", "expected its end after its start"),
        ("a['end_s'] = float('inf')", "expected a finite start and end"),
        ("a['call'] = 1", "expected a call of 0..0"),
        ("a['end_s'] = 1e7", r"a trace of 1e\+07 s; expected at most 1e\+06 s"),
        (
            "a['end_s'] = 1e308; d['traceEvents'].append(e | {'args': a | {'start_s': -1e308, 'end_s': -1e308}}); "
            "a['start_s'] = 1e308",
            "a trace of inf s; expected at most",
        ),
        ("e['cat'] = 'send'", "expected a peer of 0..1"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(tmp_path: Path, change: str, message: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(broken(change))
    with pytest.raises(FormatError, match=f"^{path}: .*{message}") as error:
        chrome.read(path)
    assert "\n" not in str(error.value) and len(str(error.value)) < 400


def test_the_file_that_is_changed_above_is_good(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(broken(""))
    assert len(chrome.read(tmp_path / "x.json")) == 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty; expected a trace"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "nested too deeply|not JSON"),
        (b"[]", "not a trace of ringtree's"),
        (b'[{"ph": "X"}]', "not a trace of ringtree's"),
        (b"\x1f\x8b", "its gzip is broken or cut short"),
        (b"\x1f\x8bgarbage, not gzip", "its gzip is broken or cut short"),
        (gzip.compress(b'{"traceEvents": []}', mtime=0)[:-9], "its gzip is broken or cut short"),
        (gzip.compress(b'{"traceEvents": []}', mtime=0)[:-8] + bytes(8), "its gzip is broken or cut short"),
    ],
)
def test_other_files_than_traces_are_refused_in_one_line(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=f"x: ({message})") as error:
        chrome.read(path)
    assert "\n" not in str(error.value)


def test_other_paths_than_files_are_refused(tmp_path: Path) -> None:
    for path, what in ((tmp_path / "absent", "no such file"), (tmp_path, "a folder")):
        with pytest.raises(FormatError, match=f"{what}; expected a trace"):
            chrome.read(path)
        assert not chrome.is_trace(path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert not chrome.is_trace(tmp_path / "pipe")
    with pytest.raises(FormatError, match="a pipe; expected a trace"):
        chrome.read(tmp_path / "pipe")


def test_a_schedule_is_no_trace(tmp_path: Path) -> None:
    for data in (format_schedule(build("ring", "all_reduce", 4)).encode(), b'{"name": "x"}', b"\x1f\x8b\0", b"<algo/>"):
        (tmp_path / "x").write_bytes(data)
        assert not chrome.is_trace(tmp_path / "x")
