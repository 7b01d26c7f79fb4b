"""Execution traces in MLCommons' Chakra schema, which ASTRA-sim plays: a file NAME.R.et for each rank R, of a
GlobalMetadata message and a Node message for each operation, each behind its length.

Nodes compute, send, receive, or take part in a collective; `data_deps` and `ctrl_deps` name the nodes that must have
ended. In traces of PyTorch `ctrl_deps` are callers, and may contradict `data_deps`, which count alone then. The fields'
numbers are those of schema/protobuf/et_def.proto in mlcommons/chakra (0.0.4). Sizes are as ASTRA-sim takes them:
`comm_size` of an all-gather and a gather is a rank's own part, of the others the whole vector.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ringtree.files.file_bytes import content
from ringtree.files.replacing import replacing
from ringtree.formats.imported import FormatError
from ringtree.formats.operations import wire
from ringtree.formats.operations.communicators import COLLECTIVES, NO_COMMUNICATORS, Communicators, matched
from ringtree.formats.operations.limits import MOST_BYTES, MOST_RANKS, check_size
from ringtree.formats.operations.wire import Field, fields, message, messages, packed_varint
from ringtree.ir import units
from ringtree.ir.operations import GraphBuilder, OperationGraph, OperationKind

EXPECTED = "a Chakra execution trace"
FILE = re.compile(r"(.+)\.(0|[1-9][0-9]{0,6})\.et")
SCHEMA = "0.0.4"

# Fields of GlobalMetadata, Node, IOInfo and AttributeProto.
VERSION = 1
ID, NAME, TYPE, CTRL_DEPS, DATA_DEPS, DURATION_MICROS, INPUTS, ATTR = 1, 2, 3, 4, 5, 7, 8, 10
VALUES = 1
ATTR_NAME, DOUBLE, FLOAT, INT32, INT64, UINT64, SINT32, SINT64 = 1, 3, 5, 7, 9, 13, 15, 17
BOOL, BOOL_LIST, STRING = 27, 28, 29
NUMBERS = range(INT32, BOOL + 1, 2)
"""Fields of an attribute that are one whole number."""

INVALID, METADATA, MEM_LOAD, MEM_STORE, COMP, COMM_SEND, COMM_RECV, COMM_COLL = range(8)
KINDS = {COMM_SEND: OperationKind.SEND, COMM_RECV: OperationKind.RECEIVE, COMM_COLL: OperationKind.COLLECTIVE}
"""Types of nodes, and the kinds of operation that are no computation."""
TYPE_NAMES = {COMP: "COMP_NODE", COMM_SEND: "COMM_SEND_NODE", COMM_RECV: "COMM_RECV_NODE"}
GPU, CPU, LINKS, MEMORY, STREAMS = range(5)
"""Processors of a rank: of computations, of CPU operations, of messages, of memory; and the first of its streams."""
OWN_DURATION = "duration_s"
"""An attribute of ringtree's files: seconds, where `duration_micros` has whole microseconds."""
BYTES_PER_OPERATION = 4
KNOWN = {"is_cpu_op", "comm_type", "comm_size", "comm_src", "comm_dst", "comm_tag", "pg_name", "stream", "involved_dim"}
KNOWN |= {OWN_DURATION}

Attribute = int | float | str


class Node(NamedTuple):
    """A node of a trace, with the attributes that are read."""

    id: int
    type: int
    data_deps: list[int]
    ctrl_deps: list[int]
    duration_s: float
    attributes: Mapping[str, Attribute]
    inputs: str

    def number(self, name: str, otherwise: int | None = None) -> int:
        """A whole number's attribute. ValueError: if it is missing, or not from 0 to 2**53."""
        value = self.attributes.get(name, otherwise)
        if not isinstance(value, int) or not 0 <= value < 1 << 53:
            given = "no" if value is None else f"{value!r:.40} as"
            raise ValueError(f"node {self.id} has {given} {name}; expected a number of 0 or more")
        return value


def read(path: Path, communicators: Mapping[str, tuple[int, ...]] = NO_COMMUNICATORS) -> OperationGraph:
    """The graph of the trace that the file, one of NAME.R.et, belongs to. `communicators`: ranks by `pg_name`,
    beside those that the trace names itself. FormatError, in one line: if a rank's file is missing or broken."""
    paths = files(path)
    name = FILE.fullmatch(paths[0].name)
    assert name is not None
    builder, groups = GraphBuilder(), Communicators(len(paths), dict(communicators))
    left = MOST_BYTES
    for rank, one in enumerate(paths):
        try:
            with content(one, EXPECTED, left, binary=True) as file:
                found = messages(file)
                _metadata(next(found, None))
                _Rank(one, rank, len(paths), builder, groups).read(found)
            left -= one.stat().st_size
        except UnicodeDecodeError as error:
            raise FormatError(f"{one}: not text: {error.reason}; expected {EXPECTED}") from None
        except ValueError as error:
            text = str(error)
            raise FormatError(text if text.startswith(str(one)) else f"{one}: {text}") from None
    try:
        calls, position = matched(groups)
    except ValueError as error:
        raise FormatError(f"{name[1]}: {error}") from None
    graph = builder.build(name[1], len(paths), calls)
    graph.tag[list(position)] = list(position.values())
    return graph


def files(path: Path) -> list[Path]:
    """The files of all ranks, in order, of a trace that `path` is one of. FormatError: if one is missing."""
    of = FILE.fullmatch(path.name)
    if of is None:
        raise FormatError(f"{path}: no name of {EXPECTED}; expected NAME.RANK.et")
    there = {}
    try:
        for one in path.parent.iterdir():
            if (found := FILE.fullmatch(one.name)) and found[1] == of[1]:
                there[int(found[2])] = one
    except OSError as error:
        raise FormatError(f"{path.parent}: {error.strerror}") from None
    ranks = max([*there, int(of[2])]) + 1
    missing = next((rank for rank in range(ranks) if rank not in there), None)
    if missing is not None or ranks > MOST_RANKS:
        raise FormatError(
            f"{path.parent / of[1]}.{missing}.et: no such file; expected one for each of {units.count(ranks, 'rank')}"
        )
    return [there[rank] for rank in range(ranks)]


def _metadata(data: bytes | None) -> None:
    """Checks the first message, which has a version and attributes."""
    if data is None or any(f.number not in (1, 2) or f.wire != wire.LENGTH for f in fields(data)):
        raise ValueError(f"it does not begin with a GlobalMetadata message; expected {EXPECTED}")


class _Rank:
    """Reads the nodes of one rank."""

    def __init__(self, path: Path, rank: int, ranks: int, builder: GraphBuilder, groups: Communicators) -> None:
        self.path, self.rank, self.ranks, self.builder, self.groups = path, rank, ranks, builder, groups
        self.rows: dict[int, int] = {}
        self.data_deps: list[tuple[int, int]] = []  # a row, and a node that must have ended
        self.ctrl_deps: list[tuple[int, int]] = []

    def read(self, found: Iterator[bytes]) -> None:
        for data in found:
            node = _node(data)
            if node.id in self.rows:
                raise ValueError(f"two nodes have the id {node.id}; expected ids that differ")
            row = self.rows[node.id] = self._add(node)
            self.data_deps += [(row, before) for before in node.data_deps]
            self.ctrl_deps += [(row, before) for before in node.ctrl_deps]
            pairs = len(self.data_deps) + len(self.ctrl_deps)
            check_size(self.path, len(self.builder), self.builder.dependencies + pairs)
        lacking = next((before for _, before in self.data_deps if before not in self.rows), None)
        if lacking is not None:
            raise ValueError(f"a node has data_deps on node {lacking}, which is not there")
        callers = [(row, before) for row, before in self.ctrl_deps if before in self.rows]  # some are left out
        waits = list(dict.fromkeys((row, self.rows[before]) for row, before in self.data_deps + callers))
        if not _ends(waits):
            waits = [(row, self.rows[before]) for row, before in dict.fromkeys(self.data_deps)]
        for row, before in waits:
            self.builder.depend(row, before)

    def _add(self, node: Node) -> int:
        kind = KINDS.get(node.type, OperationKind.COMPUTE)
        on_cpu = bool(node.attributes.get("is_cpu_op", False))
        if on_cpu and "comm_size" not in node.attributes:  # PyTorch's call, whose work on the GPU is a node of its own
            kind = OperationKind.COMPUTE
        usual = CPU if on_cpu else LINKS if kind else MEMORY if node.type in (MEM_LOAD, MEM_STORE) else GPU
        processor = STREAMS + node.number("stream") if "stream" in node.attributes and not on_cpu else usual
        if kind is OperationKind.COMPUTE:
            if node.type == METADATA and '"pg_name"' in node.inputs:
                self.groups.define(node.inputs)
            return self.builder.add(kind, self.rank, processor=processor, compute_s=node.duration_s)
        no_data = kind is OperationKind.COLLECTIVE and COLLECTIVES.get(node.number("comm_type")) == "barrier"
        nbytes = node.number("comm_size", 0 if no_data else None)
        if kind is OperationKind.COLLECTIVE:
            row = self.builder.add(kind, self.rank, nbytes, processor=processor)
            if "involved_dim" in node.attributes:
                raise ValueError(f"node {node.id} has involved_dim, not all true; expected a pg_name in its place")
            self.groups.call(row, self.rank, str(node.attributes.get("pg_name", "")), node.number("comm_type"), nbytes)
            return row
        own, peer = ("comm_src", "comm_dst") if kind is OperationKind.SEND else ("comm_dst", "comm_src")
        if node.number(own, self.rank) != self.rank or node.number(peer) >= self.ranks:
            ends = f"{own} {node.number(own, self.rank)} and {peer} {node.number(peer)}"
            expected = f"rank {self.rank}, whose file it is, and one of 0..{self.ranks - 1}"
            raise ValueError(f"node {node.id} has {ends}; expected {expected}")
        tag = node.number("comm_tag", 0)
        return self.builder.add(kind, self.rank, nbytes, node.number(peer), tag, processor)


def _ends(waits: list[tuple[int, int]]) -> bool:
    """Whether no row waits for itself, by pairs of (row, the row that it waits for)."""
    missing = Counter(row for row, _ in waits)
    then: dict[int, list[int]] = {}
    for row, before in waits:
        then.setdefault(before, []).append(row)
    ready = [before for before in then if before not in missing]
    while ready:
        for row in then.get(ready.pop(), ()):
            missing[row] -= 1
            if not missing[row]:
                ready.append(row)
    return not any(missing.values())


def _node(data: bytes) -> Node:
    id_ = type_ = micros = 0
    data_deps, ctrl_deps = list[int](), list[int]()
    attributes: dict[str, Attribute] = {}
    inputs = ""
    for field in fields(data):
        if field.number == ID:
            id_ = field.bits
        elif field.number == TYPE:
            type_ = field.bits
        elif field.number == DATA_DEPS:
            data_deps += field.many
        elif field.number == CTRL_DEPS:
            ctrl_deps += field.many
        elif field.number == DURATION_MICROS:
            micros = field.bits
        elif field.number == INPUTS:
            inputs = next((f.data.decode() for f in fields(field.data) if f.number == VALUES), "")
        elif field.number == ATTR:
            _attribute(field.data, attributes)
    exact_s = attributes.get(OWN_DURATION, micros * 1e-6)
    if not isinstance(exact_s, float) or not 0 <= exact_s <= 1e9:
        raise ValueError(f"node {id_} lasts {exact_s:g} s; expected at most 1e9")
    return Node(id_, type_, data_deps, ctrl_deps, exact_s, attributes, inputs)


def _attribute(data: bytes, attributes: dict[str, Attribute]) -> None:
    """Adds the attribute where it is one that is read."""
    name, value = "", None
    for field in fields(data):
        if field.number == ATTR_NAME:
            name = field.data.decode(errors="replace")
            if name not in KNOWN:
                return
        elif field.number > ATTR_NAME + 1:
            value = field
    if name not in KNOWN or value is None:
        return
    if value.number == BOOL_LIST:
        flags = [flag for inner in fields(value.data) for flag in inner.many]
        if not all(flags):
            attributes[name] = 0
    elif value.number in (DOUBLE, FLOAT):
        attributes[name] = wire.real(value)
    elif value.number == STRING:
        attributes[name] = value.data.decode()
    elif value.number in NUMBERS:
        attributes[name] = _whole(value)


def _whole(field: Field) -> int:
    return (wire.zigzag if field.number in (SINT32, SINT64) else wire.signed)(field.bits)


def write(prefix: Path, graph: OperationGraph) -> list[Path]:
    """Writes the graph as PREFIX.0.et and so on; returns the paths. A computation has its seconds in whole
    microseconds as the schema has it, exactly in an attribute of ringtree's own, and its bytes; a thread is a stream.
    ValueError: for dependencies on a start, which the schema lacks, and where files of further ranks are there, which
    would be read with these; nothing is written then."""
    w = graph
    if w.at_start.any() or w.count(OperationKind.COLLECTIVE):
        raise ValueError(f"{w.name} has dependencies on starts, or collectives; a Chakra trace cannot be written of it")
    paths = [prefix.with_name(f"{prefix.name}.{rank}.et") for rank in range(w.ranks + 1)]
    if (more := paths.pop()).exists():
        raise ValueError(f"{more} is of a trace of more ranks; expected another name, or none of its files")
    if folder := next((path for path in paths if path.is_dir()), None):
        raise ValueError(f"{folder} is a folder; expected a file to write to")
    by_rank = np.argsort(w.rank, kind="stable")
    edges = np.searchsorted(w.rank[by_rank], np.arange(w.ranks + 1)).tolist()
    ids = np.empty(len(w), np.int64)
    for first, stop in pairwise(edges):
        ids[by_rank[first:stop]] = np.arange(stop - first)
    by_after = np.lexsort((ids[w.before], w.after))
    waits = np.searchsorted(w.after[by_after], np.arange(len(w) + 1)).tolist()
    before = ids[w.before[by_after]].tolist()
    columns = [c.tolist() for c in (ids, w.kind, w.rank, w.nbytes, w.peer, w.tag, w.processor, w.compute_s)]
    for path, (first, stop) in zip(paths, pairwise(edges), strict=True):
        with replacing(path) as file:
            file.write(_delimited(message((VERSION, SCHEMA))))
            for row in by_rank[first:stop].tolist():
                deps = before[waits[row] : waits[row + 1]]
                file.write(_delimited(_written(deps, *(column[row] for column in columns))))
    return paths


def _delimited(data: bytes) -> bytes:
    return packed_varint(len(data)) + data


def _written(
    deps: list[int], id_: int, kind: int, rank: int, nbytes: int, peer: int, tag: int, processor: int, compute_s: float
) -> bytes:
    """A node."""
    attributes: list[tuple[str, int, int | float]] = [("is_cpu_op", BOOL, False)]
    if kind == OperationKind.COMPUTE:
        type_ = COMP
        attributes += [("num_ops", INT64, nbytes // BYTES_PER_OPERATION), ("tensor_size", UINT64, nbytes)]
        attributes += [(OWN_DURATION, DOUBLE, compute_s)] * (compute_s > 0)
    else:
        type_ = COMM_SEND if kind == OperationKind.SEND else COMM_RECV
        source, target = (rank, peer) if kind == OperationKind.SEND else (peer, rank)
        attributes += [("comm_size", INT64, nbytes), ("comm_src", INT32, source), ("comm_dst", INT32, target)]
        attributes += [("comm_tag", INT32, tag)]
    attributes.append(("stream", INT64, processor))
    return message(
        (ID, id_),
        (NAME, f"{TYPE_NAMES[type_]}_{id_}"),
        (TYPE, type_),
        *((DATA_DEPS, dep) for dep in deps),
        *([(DURATION_MICROS, round(compute_s * 1e6))] if compute_s > 0 else []),
        *((ATTR, message((ATTR_NAME, name), (field, value))) for name, field, value in attributes),
    )
