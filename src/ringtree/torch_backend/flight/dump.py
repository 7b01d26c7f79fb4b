"""Dumps of the flight recorder: one file a rank in PyTorch's format, which its analyser reads (torchfrtrace FOLDER).

The analyser accepts a list of backends and of operations; ringtree is not among them. So a dump names the backend gloo,
which ringtree replaces, and gives the operations the analyser's names; `comm_lib_version` names ringtree. The analyser
looks for every operation of a group on all its ranks. So messages are put into groups of two ranks, one for each
direction and tag, where each has its counterpart; a list of tensors is dumped with their total size.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import pickle
import sys
import threading
import traceback
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ringtree import __version__
from ringtree.files.replacing import renaming
from ringtree.torch_backend.flight.recorder import RING, Described, FlightEntry, FlightRecorder, living

VERSION = "2.10"
"""The version of PyTorch's format: 2.13's."""

_DTYPES = {
    "float32": "Float",
    "float64": "Double",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "uint8": "Byte",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "bool": "Bool",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}

_NAMES = {
    "all_gather_into_tensor": "_all_gather_base",
    "reduce_scatter_tensor": "_reduce_scatter_base",
    "all_reduce_coalesced": "allreduce_coalesced",
    "all_gather_coalesced": "ALLGATHER_coalesced",
    "reduce_scatter_coalesced": "REDUCE_SCATTER_coalesced",
    "all_to_all_single": "all_to_all",
    "monitored_barrier": "barrier",
}
"""The analyser's where they are not the recorder's."""


LAST_S = 1.0
"""Seconds at most that a process waits at its end for a dump that another of its threads writes."""

_writing = threading.Lock()


def _finish() -> None:
    """Lets a thread end that writes: half a file would stay. One that begins later must not wait for this."""
    if _writing.acquire(timeout=LAST_S):
        _writing.release()


atexit.register(_finish)


def prefix() -> Path:
    """The beginning of the files' names; the rank follows."""
    for name in ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"):
        if text := os.environ.get(name):
            return Path(text)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "torch" / "comm_lib_trace_rank_"


def dump(rank: int) -> Path | None:
    """Writes the last operations of this process's groups: the pickle that the analyser reads, whose path it returns,
    and the same as JSON. None where nothing is recorded, or it cannot be written: a line on standard error says why."""
    if RING.maxlen == 0:
        return None
    path = prefix()
    with _writing:
        made = document()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(json_path(path, rank), json.dumps(made).encode())
            pickled = path.with_name(f"{path.name}{rank}")
            _write(pickled, pickle.dumps(made))
        except (OSError, ValueError) as error:  # the prefix may be no name of a file
            why = getattr(error, "strerror", None) or error
            with suppress(OSError, ValueError):  # standard error may be closed, or as full
                sys.stderr.write(
                    f"ringtree: rank {rank}: the flight recorder's dump {path}{rank} is not written: {why}\n"
                )
            return None
    return pickled


def json_path(prefix: Path, rank: int) -> Path:
    """A name that the analyser does not take for one of its files: without the prefix's last character."""
    return prefix.with_name(f"{prefix.name[:-1]}.{rank}.json")


def _write(path: Path, data: bytes) -> None:
    """Writes the file at once: a reader never finds a part of it."""
    with renaming(path) as file:
        file.write(data)


def document() -> dict[str, Any]:
    """A dump. Beside what PyTorch's has, `stacks`: where each thread of this process is."""
    entries = list(RING)
    # Names come again after the groups that had them have ended; what those did is left out.
    newest = {(r.name, r.ranks): r for r in [*(entry.recorder for entry in entries), *living()]}
    entries = [entry for entry in entries if newest[entry.recorder.name, entry.recorder.ranks] is entry.recorder]
    states = _states(entries)
    groups = [_group(r.name, r.description, r.ranks) for r in newest.values()]
    pg_ids = {r: number for number, r in enumerate(newest.values())}
    rows, record = [], next((entry.record for entry in entries if entry.record >= 0), 0)
    for entry, state in zip(entries, states, strict=True):
        record = max(record, entry.record)
        row = {"record_id": record, "pg_id": pg_ids[entry.recorder], **_common(entry, state)}
        if entry.peer is None:
            rows.append({**row, **_collective(entry)})
        else:
            group, fields = _message(entry, entry.peer)
            groups.append(group)
            rows.append({**row, **fields})
    return {
        "version": VERSION,
        "comm_lib_version": f"ringtree {__version__}",
        "pg_config": {group["name"]: group for group in groups},
        "pg_status": {str(number): _status(r, entries, states) for r, number in pg_ids.items()},
        "entries": rows,
        "stacks": _stacks(),
    }


def _group(name: str, description: str, ranks: Iterable[int]) -> dict[str, str]:
    return {"name": name, "desc": description, "ranks": str(list(ranks))}


def _states(entries: list[FlightEntry]) -> list[str]:
    """A group's collectives run one after the other: of those that have not ended, one has started."""
    running: set[FlightRecorder] = set()
    states = []
    for entry in entries:
        waits = entry.peer is None and entry.recorder in running
        states.append("completed" if entry.has_ended() else "scheduled" if waits else "started")
        if entry.peer is None and states[-1] == "started":
            running.add(entry.recorder)
    return states


def _common(entry: FlightEntry, state: str) -> dict[str, Any]:
    return {
        "state": state,
        "time_created_ns": entry.begun_ns,
        "time_discovered_started_ns": None if state == "scheduled" else entry.begun_ns,
        "time_discovered_completed_ns": entry.ended_ns or None,
        "duration_ms": (entry.ended_ns - entry.begun_ns) / 1e6 if entry.ended_ns else None,
        "retired": state == "completed" or entry.failed,
        "timeout_ms": int(entry.recorder.timeout_s * 1000),
        "frames": [],
    }


def _collective(entry: FlightEntry) -> dict[str, Any]:
    inputs, outputs, name = entry.inputs, entry.outputs, _NAMES.get(entry.name, entry.name)
    if name in ("all_gather", "gather"):
        outputs = _joined(outputs)
    elif name in ("reduce_scatter", "scatter"):
        inputs = _joined(inputs)
    elif name == "all_to_all":
        inputs, outputs = _joined(inputs), _joined(outputs)
    uneven = len({shape for shape, _ in (*entry.inputs, *entry.outputs)}) > 1
    if uneven and name in ("all_gather", "reduce_scatter"):  # the whole, which ranks have in common
        inputs = outputs = outputs if name == "all_gather" else inputs
        name += "_v"
    return {
        "process_group": [entry.recorder.name, entry.recorder.description],
        "collective_seq_id": entry.number,
        "p2p_seq_id": 0,
        "op_id": entry.number,
        "is_p2p": False,
        "profiling_name": f"gloo:{name}",
        **_sizes(inputs, outputs),
    }


def _message(entry: FlightEntry, peer: int) -> tuple[dict[str, str], dict[str, Any]]:
    """The group of two ranks that this message is put into, and the message's fields. A receive from any rank whose
    sender is not known yet is put into the group of all ranks."""
    recorder, sends = entry.recorder, entry.name == "send"
    me, other = recorder.rank, recorder.ranks[peer] if peer >= 0 else None
    source, target = (me, other) if sends else (other, me)
    ranks = sorted(recorder.ranks if other is None else {me, other})
    name = f"{recorder.name}: {'any' if source is None else source}->{target}, tag {entry.tag}"
    here, there = ranks.index(me), ranks.index(me if other is None else other)
    return _group(name, "messages", ranks), {
        "process_group": [name, "messages"],
        "collective_seq_id": entry.turn,
        "p2p_seq_id": entry.turn,
        "op_id": entry.number,
        "is_p2p": True,
        "profiling_name": f"gloo:send {here}->{there}" if sends else f"gloo:recv {here}<-{there}",
        **_sizes(entry.inputs, entry.outputs),
    }


def _sizes(inputs: Described, outputs: Described) -> dict[str, Any]:
    return {
        "input_sizes": [list(shape) for shape, _ in inputs],
        "input_dtypes": [_dtype(dtype) for _, dtype in inputs],
        "output_sizes": [list(shape) for shape, _ in outputs],
        "output_dtypes": [_dtype(dtype) for _, dtype in outputs],
    }


def _dtype(dtype: Any) -> str:
    name = str(dtype).removeprefix("torch.")
    return _DTYPES.get(name, name.capitalize())


def _joined(tensors: Described) -> Any:
    """The size of all of them together, as rows of their shape where that is one."""
    if len(tensors) < 2:
        return tensors
    (shape, dtype), even = tensors[0], len({shape for shape, _ in tensors}) == 1
    return (((len(tensors), *shape) if even else (sum(math.prod(shape) for shape, _ in tensors),), dtype),)


def _status(recorder: FlightRecorder, entries: list[FlightEntry], states: list[str]) -> dict[str, str]:
    def last(*wanted: str) -> str:
        mine = zip(entries, states, strict=True)
        numbers = (e.number for e, s in mine if e.recorder is recorder and e.peer is None and s in wanted)
        return str(max(numbers, default=-1))

    return {
        "last_enqueued_collective": str(recorder.collectives or -1),
        "last_started_collective": last("started", "completed"),
        "last_completed_collective": last("completed"),
    }


def _stacks() -> list[dict[str, Any]]:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return [
        {
            "thread_name": names.get(thread, ""),
            "thread_id": str(thread),
            "frames": [
                {"name": frame.name, "filename": frame.filename, "line": frame.lineno}
                for frame in reversed(traceback.extract_stack(top, limit=-100))
            ],
        }
        for thread, top in sys._current_frames().items()
    ]
