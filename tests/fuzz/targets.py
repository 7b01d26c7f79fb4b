"""The readers of what others write, as functions of bytes: what each may raise, and inputs to begin with, which our own
writers make."""

from __future__ import annotations

import argparse
import json
import pickle
import socket
import struct
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ringtree import formats, topology
from ringtree.algorithms import build
from ringtree.bench import record, tuned_text
from ringtree.cli.arguments import byte_sizes, cluster, hosts
from ringtree.cli.options import subject
from ringtree.draw.text.comparison import comparison
from ringtree.files import json_values
from ringtree.files.file_bytes import opened
from ringtree.formats import chrome, operations
from ringtree.formats.flight import divergence, dumps, plain_pickle
from ringtree.ir.parse import parse_schedule
from ringtree.ir.text import ScheduleTextError, format_schedule
from ringtree.machines.files import reading
from ringtree.nccl.files import graph_xml, nccl_tests, tuner_csv
from ringtree.price import BUILT_IN
from ringtree.runtime import tuned
from ringtree.runtime.bootstrap.network import connection, contact
from ringtree.runtime.launch.hosts import messages, placement
from ringtree.simulate import Job, StuckError
from ringtree.simulate.as_operations import as_operations
from ringtree.simulate.operations import play_graph
from ringtree.storage.elements import ELEMENTS
from ringtree.storage.header import npy_bytes, read_header, safetensors_bytes
from ringtree.topology import text as topology_text
from ringtree.verify import ProofError, prove
from tests.formats import plans, test_mscclpp_operations, writing
from tests.formats.flight import recorded
from tests.fuzz import calls
from tests.machines import test_fuzzed_files

MOST_MOVES = 300
"""Of a schedule that is proved: longer ones are only read."""
Seeds = Callable[[], list[bytes]]


@dataclass(frozen=True)
class Target:
    """A reader. `refuses`: what it may raise for input that is wrong, in one line where `one_line`."""

    read: Callable[[bytes], Any]
    refuses: tuple[type[Exception], ...]
    seeds: Seeds
    one_line: bool = True

    def run(self, data: bytes) -> None:
        """Reads it; AssertionError for a refusal that is no line. What else is raised is a finding."""
        try:
            self.read(data)
        except self.refuses as error:
            assert not self.one_line or "\n" not in str(error), f"more than a line: {str(error)!r}"


@cache
def made_folder() -> tempfile.TemporaryDirectory[str]:
    """Where inputs lie that are read as files; it ends with the process."""
    return tempfile.TemporaryDirectory(prefix="fuzz")


def in_file(name: str, read: Callable[[Path], Any]) -> Callable[[bytes], Any]:
    """The reader of a path, on a file of that name with the bytes."""

    def run(data: bytes) -> Any:
        path = Path(made_folder().name) / name
        path.write_bytes(data)
        return read(path)

    return run


def as_text(read: Callable[[str], Any]) -> Callable[[bytes], Any]:
    """The reader of a text, on what of the bytes is one."""
    return lambda data: read(data.decode("utf-8", "replace"))


def proved(path: Path) -> None:
    """Reads a schedule of any format, and proves it where that is soon done."""
    schedule = formats.load(path).schedule
    if schedule.transfers <= MOST_MOVES and schedule.ranks * schedule.chunks <= MOST_MOVES:
        with suppress(ProofError):
            prove(schedule)


def printed_again(text: str) -> None:
    """A schedule's text is that of the schedule that is read from it."""
    schedule = parse_schedule(text)
    again = parse_schedule(format_schedule(schedule))
    assert format_schedule(again) == format_schedule(schedule), text


def schedules() -> list[bytes]:
    """Texts of small schedules, and files of MSCCL and MSCCL++, whose operations are all in one of the plans."""
    made = [build("ring", "all_reduce", 3), build("binomial", "broadcast", 4), build("pairwise", "all_to_all", 3)]
    files = [writing.ring(3), *(formats.text_of(made[0], key) for key in ("msccl", "mscclpp"))]
    plans_ = [plans.text(blocks, **options) for blocks, options in test_mscclpp_operations.GOOD.values()]
    return [text.encode() for text in (*map(format_schedule, made), *files, *plans_)]


def parameters() -> bytes:
    """What `ringtree tune` writes, of this machine."""
    return tuned_text.text(BUILT_IN, (2, 4), "2026-11-21").encode()


def played(path: Path) -> None:
    """Reads operations, and plays them where that is soon done."""
    graph = operations.load(path)
    if len(graph) <= MOST_MOVES and graph.ranks <= MOST_MOVES and not graph.collectives:
        with suppress(StuckError):
            play_graph(graph, topology.parse("switch", graph.ranks))


def of_operations(write: Callable[[Path, Any], object], name: str, written: str) -> bytes:
    """What the writer makes of a ring."""
    path = Path(made_folder().name)
    write(path / name, as_operations(Job(build("ring", "all_reduce", 2), 64), topology.parse("direct", 2)))
    return (path / written).read_bytes()


def compared(path: Path) -> None:
    """Reads a trace, and compares it with itself."""
    found = chrome.read(path)
    comparison(found, found)


def diverged(path: Path) -> None:
    """Reads a dump, and asks what it says of a hang."""
    divergence.compare([dumps.read(path)])


def flight() -> list[bytes]:
    """A dump, as JSON and as a pickle."""
    entries = [recorded.entry("all_reduce", 1), recorded.entry("send 0->1", 2, "started", sizes=[[2, 3], []])]
    made = recorded.document(entries, 2, {"7": ("pair", (0, 1))})
    return [json.dumps(made).encode(), pickle.dumps(made, 2), pickle.dumps(made, 4)]


def trace() -> list[bytes]:
    """A chrome trace of a simulated call, written by ourselves."""
    from ringtree.simulate import Job, play

    path = Path(made_folder().name) / "written.json"
    made = build("ring", "all_reduce", 2)
    chrome.write(play([Job(made, 1024)], topology.parse("ring", 2)).trace, path)
    return [path.read_bytes()]


def heard(data: bytes) -> None:
    """Messages of a stranger that has connected to rank 0's server, in two pieces."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        listening = connection.Connection.__new__(connection.Connection)
        listening.wire, listening.most_bytes = ours, connection.HELLO_BYTES
        listening._unread, listening._put_back = bytearray(), connection.deque()
        ours.setblocking(False)
        for piece in (data[:3], data[3:2000]):
            theirs.sendall(piece)
            while listening.receive() is not None:
                pass


def agents_line(data: bytes) -> None:
    """A line of an agent, as the launcher reads it."""
    if data.startswith(messages.EVENT):
        messages.message_of(data.removeprefix(messages.EVENT)).get("done")
    else:
        messages.output_of(data)


def placed(path: Path) -> None:
    """Reads a hostfile, and places ranks on its hosts."""
    placement.placed(placement.hosts_of(str(path)), None)


def headed(path: Path) -> None:
    """Reads the header of a file of tensors, or of an array."""
    with opened(path, "tensors") as file:
        read_header(file, path)


def tensors() -> list[bytes]:
    """A safetensors file, and one of numpy's."""
    element = ELEMENTS["F16"]
    first, entries = safetensors_bytes({"a": (element, (2, 3)), "b": (element, ())}, {"format": "np"})
    array, (entry,) = npy_bytes(element, (2, 3))
    return [first + bytes(entries[-1].end - len(first)), array + bytes(entry.end - entry.begin)]


def framed(message: object) -> bytes:
    """A message as a connection carries it."""
    text = json.dumps(message).encode()
    return struct.pack("<I", len(text)) + text


LOG = b"""# nThread 1 nGpus 2 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20
# Using devices
#  Rank  0 Group  0 Pid   1 on      host device  0 [0x07] A part
#  Rank  1 Group  0 Pid   1 on      host device  1 [0x0f] A part
host:1:1 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>
host:1:1 [0] NCCL INFO Channel 00/02 :    0   1
host:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 nNodes 1
           8             2     float     sum      -1     9.17    0.00    0.00      0     9.14    0.00    0.00      0
          16             4     float     sum      -1     9.21    0.00    0.00      0     9.19    0.00    0.00      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.002
"""
TUNER = tuner_csv.write([tuner_csv.TunerRow("all_reduce", 0, 4096, "tree", "ll", 2, 1, 8)]).encode()
GRAPH = b"""<graphs version="1"><graph id="0" pattern="4" crossnic="0" nchannels="1" speedintra="20" speedinter="20"
latencyinter="0" typeintra="NVL" typeinter="PIX" samechannels="1"><channel><gpu dev="0"/><gpu dev="1"/></channel>
</graph></graphs>"""
BENCH = json.dumps({"machine": {}, "rows": [{"collective": "all_reduce", "ranks": 2, "nbytes": 8, "dtype": "float32",
                    "op": "sum", "time_us": 3.5}]}).encode()  # fmt: skip
WORDS = [
    b"8:8G:4",
    b"1M",
    b"2,2,2",
    b"5us",
    b"25GB/s",
    b"ring",
    b"tree:latency=1us,bandwidth=200Gb/s",
    b"8x400Gb",
    b"group=[1, 2]",
]


def words(text: str) -> None:
    """A word of a command line, by each that reads one; each refusal is a line."""
    readers = [byte_sizes.byte_sizes, hosts.host_of_ranks, hosts.link_rate, hosts.latency, cluster.rate_Bps]
    readers += [topology_text.seconds, lambda given: topology.parse(given, 4), subject.option, subject.counts]
    for read in readers:
        try:
            read(text)
        except (ValueError, argparse.ArgumentTypeError) as error:
            assert "\n" not in str(error), str(error)


TARGETS: dict[str, Target] = {
    "schedule_file": Target(in_file("schedule", proved), (formats.FormatError,), schedules),
    "goal": Target(in_file("it.goal", played), (formats.FormatError,),
                   lambda: [of_operations(operations.goal.write, "seed.goal", "seed.goal")]),
    "chakra": Target(in_file("it.0.et", played), (formats.FormatError,),
                     lambda: [of_operations(operations.chakra.write, "seed", "seed.1.et")]),
    "schedule_text": Target(as_text(printed_again), (ScheduleTextError,), lambda: schedules()[:3]),
    "machine": Target(in_file("machine", reading.read), (ValueError,),
                      lambda: [text.encode() for text in test_fuzzed_files.seeds()]),
    "topology": Target(in_file("topology.json", topology.load), (ValueError,),
                       lambda: [topology_text.dumps(topology.parse("ring", 3)).encode()]),
    "words": Target(as_text(words), (), lambda: WORDS),
    "trace": Target(in_file("trace.json", compared), (ValueError,), trace),
    "flight": Target(in_file("dump_0", diverged), (dumps.DumpError,), flight),
    "pickle": Target(plain_pickle.load, (plain_pickle.PickleError,), lambda: flight()[1:]),
    "json": Target(lambda data: json_values.json_value(data, "it", "a value"), (ValueError,),
                   lambda: [b'{"a": [1e9]}']),
    "tensors": Target(in_file("m.safetensors", headed), (ValueError,), tensors),
    "nccl_log": Target(in_file("log", nccl_tests.read), (ValueError,), lambda: [LOG, b'{"results": []}']),
    "nccl_graph": Target(in_file("graph.xml", graph_xml.read), (ValueError,), lambda: [GRAPH]),
    "nccl_tuner": Target(as_text(tuner_csv.read), (ValueError,), lambda: [TUNER]),
    "tuned": Target(in_file("tuned.json", lambda path: tuned.read(path, anywhere=True)), (ValueError,),
                    lambda: [parameters()]),
    "bench": Target(in_file("record.json", record.read), (ValueError,), lambda: [BENCH]),
    "hostfile": Target(in_file("hosts", placed), (ValueError,),
                       lambda: [b"localhost:2\nb slots=4  # two\n[fd00::1]:1\n"]),
    "connection": Target(heard, (ConnectionError,), lambda: [framed({"nonce": "0"}) + framed({"rank": 1})]),
    "contact": Target(contact.Contact.of, (ValueError,),
                      lambda: [contact.Contact(("127.0.0.1",), 1, b"a").text().encode()]),
    "agent": Target(agents_line, (messages.UnknownLine,),
                    lambda: [messages.output(1, 0, b"text"), messages.event({"done": True})]),
    "calls": Target(calls.make, (), lambda: calls.SEEDS),
}  # fmt: skip
"""All of them, by name. A new reader is a line here."""
