"""Files made to take all memory, or for ever: one line, soon, in bounded memory, from every command that takes one."""

from __future__ import annotations

import gzip
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.conftest import Ringtree

COMMANDS = {
    "show": "show FILE",
    "prove": "prove FILE",
    "simulate": "simulate FILE --bytes 8",
    "simulate, operations": "simulate FILE",
    "report": "report FILE",
    "compare-trace": "compare-trace FILE FILE",
    "explain": "explain FILE --topology dgx-h100",
    "topo show": "topo show FILE",
    "topo show --graph": "topo show dgx-h100 --graph FILE",
    "--topology": "simulate ring --bytes 8 --topology FILE",
    "--topology trace:": "simulate ring --bytes 8 --topology trace:FILE",
    "--constants": "simulate ring --bytes 8 --constants FILE",
    "--fit": "simulate ring --topology mi300x8 --fit FILE",
    "plan": "plan all_reduce --topology FILE",
    "run --hosts": "run --hosts FILE true",
    "run": "run -n 2 FILE.py",
    "own algorithm": "show FILE.py:ring",
}
"""Every command that reads a file."""
MOST_SECONDS = 20
"""Of the processor, on a busy machine; alone, none takes more than three."""
M = 1 << 20
EVENT = (
    b'{"ph":"X","pid":0,"cat":"copy","args":{"nbytes":0,"peer":0,"channel":0,"chunk":0,"call":0,"start_s":0,"end_s":0}}'
)
HEAD, TAIL = b'{"traceEvents":[\n', b'\n],"otherData":{"ringtree":1,"ranks":1,"calls":[""],"facts":{}}}'
LINK = b'{"source":"%x","target":"%x","latency_s":1}'
LIST = b'{"machine":{},"rows":[' + b"[]," * 1_900_000 + b"[]]}"
STEP = b'<step s="0" type="nop" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>'
ALGO = b'<algo name="a" nchannels="1" ngpus="1024" proto="Simple" coll="allreduce" nchunksperloop="1" inplace="1">'
CHUNKS = b'i_chunks="1" o_chunks="1" s_chunks="1048575"'
PLAN = (
    b'{"name":"a","collective":"allreduce","protocol":"Simple","inplace":true,"gpus":[{"id":0,"input_chunks":1,'
    b'"output_chunks":1,"scratch_chunks":1048575,"channels":[],"remote_buffers":[],"semaphores":[],"threadblocks":'
    b'[{"id":0,"channels":[],"remote_buffer_refs":[],"ops":[%s]}]}]}'
)
PIPELINE = b'{"name":"pipeline","iter_context":{"unit_size":%d,"num_chunks":1},"ops":[]}'
NUMBERS = b"1048576 262144 float sum -1 100.0 10.0 10.0 0 100.0 10.0 10.0 0\n"


def packed(*parts: tuple[bytes, int]) -> bytes:
    """Parts, each so many times, packed without making them whole."""
    made = gzip.compress(b"")
    for part, times in parts:
        most = max(M // len(part), 1)
        member = gzip.compress(part * most, 9)
        made += member * (times // most)
    return made


FILES: dict[str, tuple[Callable[[], bytes], tuple[str, ...]]] = {
    "lists, packed": (
        lambda: packed((b"[" * 50, 1), (b"[],", 300 * M)),
        ("--topology trace:", "compare-trace", "show"),
    ),
    "a trace's lists, packed": (lambda: packed((HEAD, 1), (b"[],", 300 * M)), ("compare-trace", "show")),
    "a trace's names, packed": (lambda: packed((HEAD, 1), (b'{"ph":"M"},\n', 90 * M)), ("compare-trace",)),
    "lists": (lambda: LIST, ("report", "topo show", "--topology", "plan", "explain", "show")),
    "more lists": (
        lambda: b'{"a":[' + b"[]," * (5 * M) + b"[]]}",
        ("--constants", "--topology", "report", "topo show", "explain"),
    ),
    "objects": (lambda: b'{"rows":[' + b'{"":0},' * 1_300_000 + b"{}]}", ("plan", "report", "--topology")),
    "a text": (lambda: b'["\\ud83d\\ude00' + b"a" * (7 * M) + b'"]', ("explain", "topo show", "report", "--topology")),
    "depth": (
        lambda: b'{"a":' + b"[" * (8 * M),
        ("show", "--constants", "report", "explain", "topo show", "--topology"),
    ),
    "some depth": (lambda: b'{"machine":{},"rows":' + b"[" * 900 + b"]" * 900 + b"}", ("topo show", "report", "plan")),
    "digits": (lambda: b'{"a":' + b"9" * (7 * M) + b"}", ("report", "explain", "show", "topo show", "--topology")),
    "zeros": (lambda: bytes(7 * M), ("run --hosts", "topo show", "report", "show", "explain")),
    "attributes": (
        lambda: b'<system version="1">' + (b"<a " + b" ".join(b'a%d=""' % i for i in range(98)) + b"/>") * 20_000,
        ("topo show --graph", "plan", "topo show"),
    ),
    "elements": (lambda: b'<system version="1">' + b"<a/>" * 199_000 + b"</system>", ("topo show", "plan", "show")),
    "steps": (lambda: b'<algo name="a"><gpu id="0">' + STEP * 140_000, ("show", "prove")),
    "rounds": (lambda: b"schedule a all_reduce: 1000000 ranks, 1000000 chunks\n" + b"x: 0 -> 1\n" * 10**6, ("show",)),
    "ranks": (lambda: b"schedule a all_reduce: 65536 ranks, 65536 chunks\nonce: nothing", ("prove", "show")),
    "copies": (
        lambda: b"schedule a all_reduce: 1048576 ranks, 1 chunks, 1 scratch\nonce: r data[0] -> r scratch[0]",
        ("prove", "show"),
    ),
    "a long range": (
        lambda: b"schedule a all_reduce: 2 ranks, 1 chunks, 1 scratch\nonce: 0 data[0] -> 1 for r=0..60000000",
        ("prove",),
    ),
    "repetitions": (
        lambda: b"schedule a all_reduce: 2 ranks, 9 chunks\n2147483647 times, source chunk +1: 0 data[0] -> 0 data[1]",
        ("prove", "show"),
    ),
    "gpus": (
        lambda: ALGO + b"".join(b'<gpu id="%d" %s></gpu>' % (k, CHUNKS) for k in range(1024)) + b"</algo>",
        ("prove",),
    ),
    "pieces": (lambda: PLAN % b",".join(PIPELINE % k for k in (1, 2000)), ("prove",)),
    "links": (
        lambda: b'{"links": [\n' + b"".join(LINK % (i, i + 1) + b",\n" for i in range(1_000_000)) + b"\n]}",
        ("--topology",),
    ),
    "lines": (lambda: b"\n" * (100 * M), ("--fit", "explain")),
    "receives": (lambda: b"num_ranks 1\nrank 0 {" + b"recv 8b from 0\n" * 300_000 + b"}", ("simulate, operations",)),
    "comments": (lambda: b"num_ranks 1\n" + b"/*//" * (20 * M), ("simulate, operations",)),
    "rows": (lambda: b"# size\n" + NUMBERS * M, ("explain", "--fit")),
}
"""Hostile files, and the commands whose readers they are made for."""
QUICK = 1
"""So many commands of each file, the first ones, are quick tests, the rest slow ones."""


class Ended(NamedTuple):
    """How a command ended in a process of its own, the seconds of the processor, and the most memory that it had."""

    code: int
    lines: list[str]
    seconds: float
    peak_bytes: int


SERVER = """
import json, os, resource, signal, sys
from importlib import import_module
from ringtree.cli import main
for name in sys.argv[1:]:
    import_module(name)
for line in sys.stdin:
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        os.dup2(write, 1), os.dup2(write, 2), os.close(write), os.close(read)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")
        signal.alarm(60)
        resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))  # so that the machine outlives a failure
        sys.exit(main(json.loads(line)))
    os.close(write)
    with open(read, errors="replace") as pipe:
        lines = pipe.read().splitlines()
    _, status, used = os.wait4(process, 0)
    code = os.waitstatus_to_exitcode(status)
    print(json.dumps([code, lines, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024]), flush=True)
"""
"""Runs each line of words as the command in a process of its own, which it forks: a start of Python takes longer."""
LOADED = (
    "numpy", "ringtree.cli.compare_trace", "ringtree.cli.explain.log", "ringtree.cli.plan.table", "ringtree.cli.prove",
    "ringtree.cli.report", "ringtree.cli.run", "ringtree.cli.show.trace", "ringtree.cli.simulate.on_links",
    "ringtree.cli.topo.show",
)  # fmt: skip


@pytest.fixture(scope="module")
def in_a_process() -> Iterator[Callable[[list[str]], Ended]]:
    """in_a_process(words): how `ringtree WORDS` ended."""
    command = [sys.executable, "-c", SERVER, *LOADED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        asked, answered = server.stdin, server.stdout
        assert asked and answered

        def ask(words: list[str]) -> Ended:
            print(json.dumps(words), file=asked, flush=True)
            return Ended(*json.loads(answered.readline()))

        yield ask


def test_every_command_that_has_a_hostile_file_is_quickly_held_to_one() -> None:
    assert {c for _, of in FILES.values() for c in of[:QUICK]} == {c for _, of in FILES.values() for c in of}


@pytest.mark.parametrize(
    ("file", "commands"),
    [
        *(pytest.param(file, of[:QUICK], id=file) for file, (_, of) in FILES.items()),
        *(
            pytest.param(file, of[QUICK:], id=f"{file}, other commands", marks=pytest.mark.slow)
            for file, (_, of) in FILES.items()
            if of[QUICK:]
        ),
    ],
)
def test_a_hostile_file_is_one_line_in_bounded_memory(
    in_a_process: Callable[[list[str]], Ended], file: str, commands: tuple[str, ...], tmp_path: Path
) -> None:
    make, _ = FILES[file]
    path = tmp_path / "f.json"
    path.write_bytes(make())
    for command in commands:
        ended = in_a_process([word.replace("FILE", str(path)) for word in COMMANDS[command].split()])
        assert ended.code in (1, 2) and len(ended.lines) == 1, f"{command}: {ended}"
        assert len(ended.lines[0]) < 500 and "internal error" not in ended.lines[0], f"{command}: {ended}"
        assert ended.peak_bytes < 1 << 30 and ended.seconds < MOST_SECONDS, f"{command}: {ended}"


LIMITS: dict[str, tuple[Callable[[], bytes], str, str]] = {
    "MOST_RATIO": (
        lambda: packed((HEAD, 1), (b" " * 5000 + EVENT + b",\n", 4_000)),
        "compare-trace",
        "unpacked over 200 times as long as packed",
    ),
    "MOST_VALUES": (lambda: b"[" + b"[]," * 2_000_000 + b"[]]", "report", "more than 4,000,000 values"),
}
"""Files that exceed one limit and no other, and a command whose line names it."""


@pytest.mark.parametrize("limit", LIMITS)
def test_a_hostile_file_is_refused_by_the_limit_that_it_exceeds(ringtree: Ringtree, limit: str, tmp_path: Path) -> None:
    make, command, expected = LIMITS[limit]
    path = tmp_path / "f.json"
    path.write_bytes(make())
    assert expected in ringtree(*COMMANDS[command].replace("FILE", str(path)).split()).err


def kind(name: str, path: Path) -> Path:
    """A path at which there is no plain file."""
    if name == "pipe":
        os.mkfifo(path)
    elif name == "folder":
        path.mkdir()
    elif name == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
    elif name in ("endless", "tty"):
        path.symlink_to({"endless": "/dev/zero", "tty": "/dev/ptmx"}[name])
    elif name == "huge":
        with path.open("wb") as file:
            file.truncate(1 << 42)
    return path


@pytest.mark.timeout(20)
@pytest.mark.parametrize("what", ["pipe", "folder", "socket", "endless", "tty", "huge", "absent"])
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["f", "f.json", "f.xml"])
def test_what_is_no_plain_file_is_not_waited_for(
    ringtree: Ringtree, command: str, what: str, name: str, tmp_path: Path
) -> None:
    words = COMMANDS[command]
    ending = ".py" if "FILE.py" in words else ""
    path = kind(what, tmp_path / (name + ending))
    if ending and what == "huge":
        pytest.skip("a program's length is Python's business")
    got = ringtree(*words.replace("FILE" + ending, str(path)).split())
    assert got.code in (1, 2) and len(got.err.splitlines()) == 1 and got.out == "", got
    assert "internal error" not in got.err and len(got.err) < 600
