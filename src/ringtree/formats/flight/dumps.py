"""Reads dumps of flight recorders, one file a rank: pickled or JSON, of PyTorch's backends and of ringtree's.

PyTorch's own reader unpickles what it is given, and wants torch; this one needs neither, and takes files of anybody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ringtree.files.file_bytes import file_bytes
from ringtree.files.json_values import json_value
from ringtree.formats.flight import plain_pickle

LARGEST_BYTES = 1 << 26
"""A file beyond this is refused unread: some 20,000 operations with their stacks."""
MOST_OPERATIONS = 1_000_000
MOST_TENSORS = 5_000_000
"""Sizes in all tensors of a dump."""
MOST_RANKS = 1 << 20
MOST_FRAMES = 100
MOST_AXES = 64
"""Frames of a stack; the rest is left out."""
EXPECTED = "a flight recorder's dump"

_DTYPES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Byte": "uint8",
    "Char": "int8", "Short": "int16", "Int": "int32", "Long": "int64", "Bool": "bool",
    "ComplexFloat": "complex64", "ComplexDouble": "complex128",
}  # fmt: skip
_NAMES = {"_all_gather_base": "all_gather_into_tensor", "_reduce_scatter_base": "reduce_scatter_tensor"}
_MESSAGE = re.compile(r"(send|recv) (\d{1,7})(->|<-)(\d{1,7})")

Tensor = tuple[str, tuple[int, ...]]
"""Type and shape."""


class DumpError(ValueError):
    """A file is no dump, or a broken one; one line that names the file."""


@dataclass(frozen=True, slots=True)
class RecordedGroup:
    """A process group: its name, its description, and its ranks in the job, () where the dump does not say."""

    name: str
    description: str
    ranks: tuple[int, ...]

    def __str__(self) -> str:
        return self.description if self.description not in ("", "undefined") else repr(self.name)


@dataclass(frozen=True, slots=True)
class Operation:
    """A collective, or a message (with `source` and `target`, ranks in its group). `number`: which of its group's."""

    group: RecordedGroup
    number: int
    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    completed: bool
    begun_ns: int
    ended_ns: int
    timeout_s: float
    frames: tuple[str, ...]
    source: int | None = None
    target: int | None = None
    is_message: bool = False

    def __str__(self) -> str:
        shown = [f"{dtype} {list(shape)}" for dtype, shape in self.inputs or self.outputs]
        return f"{self.name}({', '.join(shown[:4])}{', ...' if len(shown) > 4 else ''})"


@dataclass(frozen=True, slots=True)
class Dump:
    """The record of one rank: its operations, the oldest first. `writer`: the library, where the dump names it.
    `stacks`: of its threads by name, innermost frame first, where the dump has them."""

    path: Path
    rank: int
    writer: str
    groups: Mapping[str, RecordedGroup]
    operations: tuple[Operation, ...]
    stacks: tuple[tuple[str, tuple[str, ...]], ...]


def is_dump(start: bytes) -> bool:
    """Whether a file that begins so may be a dump: a pickle, or JSON with a dump's first keys."""
    if start[:1] == b"\x80":
        return True
    text = start.lstrip()
    return text.startswith(b"{") and re.search(rb'"(entries|pg_config|pg_status|comm_lib_version)"', text) is not None


def read(path: Path) -> Dump:
    """The dump in a file, whose rank is in its name. DumpError, in one line, where it is none."""
    try:
        data = file_bytes(path, EXPECTED, LARGEST_BYTES)
        if (rank := rank_in(path.name)) is None:
            raise DumpError("no rank in the file's name; expected one such as comm_lib_trace_rank_3")
        return _dump(path, rank, _value(data, path))
    except plain_pickle.PickleError as error:
        raise DumpError(f"{path}: a pickle that {error}; expected {EXPECTED}") from None
    except DumpError as error:
        raise DumpError(f"{path}: {error}") from None
    except ValueError as error:
        raise DumpError(str(error)) from None


def _value(data: bytes, path: Path) -> Any:
    """The pickle or the JSON."""
    return plain_pickle.load(data) if data[:1] == b"\x80" else json_value(data, str(path), EXPECTED)


def rank_in(name: str) -> int | None:
    """The number behind "rank" in a file's name, else the last one: comm_lib_trace_rank_3, nccl_trace_rank3.pkl,
    rank.3.json, dump_3. None where there is none."""
    found = re.findall(r"rank[._-]?(\d{1,7})(?!\d)", name) or re.findall(r"(?<!\d)(\d{1,7})(?!\d)", name)
    return int(found[-1]) if found and int(found[-1]) < MOST_RANKS else None


class _Reading:
    """The limits that all of a dump counts against, for a pickle may have one list in a million places."""

    def __init__(self) -> None:
        self.left = MOST_TENSORS

    def items(self, value: Any) -> Sequence[Any]:
        """A list of a dump; anything else is as good as none."""
        if not isinstance(value, list | tuple):
            return ()
        self.left -= len(value)
        if self.left < 0:
            raise DumpError(f"more than {MOST_TENSORS:,} sizes and frames; expected {EXPECTED}")
        return value


def _dump(path: Path, rank: int, value: Any) -> Dump:
    if not isinstance(value, dict) or not isinstance(value.get("entries"), list | tuple):
        raise DumpError(f"no list of entries; expected {EXPECTED}")
    if len(value["entries"]) > MOST_OPERATIONS:
        raise DumpError(f"more than {MOST_OPERATIONS:,} entries; expected {EXPECTED}")
    reading = _Reading()
    groups = _groups(value.get("pg_config"), reading)
    version = _text(value.get("comm_lib_version")) or _text(value.get("nccl_version"))
    by_ringtree = version.startswith("ringtree")
    operations = [_operation(i, e, groups, by_ringtree, reading) for i, e in enumerate(value["entries"])]
    coalesced = {(o.group.name, o.is_message, o.number): o for o in operations if o.name == "coalesced"}
    return Dump(
        path,
        rank,
        version if by_ringtree or not version else f"NCCL {version}" if "nccl" not in version.lower() else version,
        groups,
        tuple(_with_state_of(o, coalesced.get((o.group.name, o.is_message, o.number))) for o in operations),
        tuple(_stacks(value.get("stacks"), reading)),
    )


def _groups(config: Any, reading: _Reading) -> dict[str, RecordedGroup]:
    groups = {}
    for name, group in config.items() if isinstance(config, dict) else ():
        if isinstance(group, dict):
            ranks = group.get("ranks")
            found = re.findall(r"\d{1,7}", ranks) if isinstance(ranks, str) else reading.items(ranks)
            members = sorted({int(r) for r in found if isinstance(r, int | str) and str(r).isdecimal()})
            groups[_text(name)] = RecordedGroup(_text(name), _text(group.get("desc")), tuple(reading.items(members)))
    return groups


def _operation(
    number: int, entry: Any, groups: Mapping[str, RecordedGroup], by_ringtree: bool, reading: _Reading
) -> Operation:
    if not isinstance(entry, dict) or not isinstance(entry.get("profiling_name"), str):
        raise DumpError(f"entry {number} names no operation; expected {EXPECTED}")
    name, description = [*map(_text, reading.items(entry.get("process_group"))), "", ""][:2]
    group = groups.get(name) or RecordedGroup(name, description, ())
    title = _text(entry["profiling_name"]).partition(":")[2] or _text(entry["profiling_name"])
    message, is_message = _MESSAGE.match(title), entry.get("is_p2p") is True
    source = target = None
    if message:
        verb, mine, _, other = message.groups()
        source, target = (int(mine), int(other)) if verb == "send" else (int(other), int(mine))
        title, is_message = verb, True
    sequence = "p2p_seq_id" if is_message and not by_ringtree else "collective_seq_id"
    return Operation(
        group,
        _number(entry.get(sequence, entry.get("seq_id"))),
        _NAMES.get(title, title),
        _tensors(entry.get("input_sizes"), entry.get("input_dtypes"), reading),
        _tensors(entry.get("output_sizes"), entry.get("output_dtypes"), reading),
        entry.get("state") == "completed",
        _number(entry.get("time_created_ns")),
        _number(entry.get("time_discovered_completed_ns")),
        _number(entry.get("timeout_ms")) / 1000,
        _frames(entry.get("frames"), reading),
        source,
        target,
        is_message,
    )


def _with_state_of(part: Operation, whole: Operation | None) -> Operation:
    """The parts of a coalesced call are recorded when they are made; only the call itself ends."""
    if whole is None or part is whole:
        return part
    return replace(part, completed=whole.completed, ended_ns=whole.ended_ns)


def _tensors(sizes: Any, dtypes: Any, reading: _Reading) -> tuple[Tensor, ...]:
    shapes = [reading.items(shape) for shape in reading.items(sizes)]
    kinds = [_text(d) for d in reading.items(dtypes)]
    kinds += kinds[-1:] * (len(shapes) - len(kinds)) or [""] * (len(shapes) - len(kinds))
    if long := next((shape for shape in shapes if len(shape) > MOST_AXES), None):
        raise DumpError(f"a tensor of {len(long):,} axes; expected at most {MOST_AXES}, as torch's have")
    return tuple(
        (_DTYPES.get(kind, kind.lower()), tuple(_number(n) for n in shape))
        for shape, kind in zip(shapes, kinds, strict=False)
    )


def _stacks(stacks: Any, reading: _Reading) -> Iterator[tuple[str, tuple[str, ...]]]:
    for stack in reading.items(stacks):
        if isinstance(stack, dict):
            yield _text(stack.get("thread_name")), _frames(stack.get("frames"), reading)


def _frames(frames: Any, reading: _Reading) -> tuple[str, ...]:
    """As in "main, train.py:12", the innermost first."""
    return tuple(
        f"{_text(f.get('name'))}, {_text(f.get('filename'))}:{_number(f.get('line'))}"
        for f in reading.items(frames)[:MOST_FRAMES]
        if isinstance(f, dict)
    )


def _text(value: Any) -> str:
    return "".join(c if c.isprintable() else "?" for c in str(value)[:1000]) if isinstance(value, str | int) else ""


def _number(value: Any) -> int:
    return value if isinstance(value, int) and abs(value) < 1 << 63 else 0
