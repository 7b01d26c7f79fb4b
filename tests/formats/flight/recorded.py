"""Dumps as PyTorch's NCCL backend writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ringtree.formats.flight.dumps import Dump, read

WORLD = ("0", "default_pg")
BEGIN_NS = 1_700_000_000_000_000_000
Groups = Mapping[str, tuple[str, Sequence[int]]]


def entry(name: str, number: int, state: str = "completed", **given: Any) -> dict[str, Any]:
    """An operation. `given`: `sizes` of inputs, `outputs` where they differ, `dtype`, `group`, `at_s`, and fields."""
    sizes = given.pop("sizes", [[8]])
    outputs, dtype = given.pop("outputs", sizes), given.pop("dtype", "Float")
    is_p2p = name.startswith(("send", "recv"))
    made = {
        "record_id": number, "pg_id": 0, "process_group": given.pop("group", WORLD), "op_id": number,
        "collective_seq_id": 0 if is_p2p else number, "p2p_seq_id": number if is_p2p else 0, "is_p2p": is_p2p,
        "profiling_name": f"nccl:{name}", "input_sizes": sizes, "output_sizes": outputs,
        "input_dtypes": [dtype] * len(sizes), "output_dtypes": [dtype] * len(outputs), "state": state,
        "time_created_ns": BEGIN_NS + int(given.pop("at_s", 0) * 1e9), "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None, "timeout_ms": 600_000, "retired": False,
        "frames": [{"name": "step", "filename": "train.py", "line": 12}],
    }  # fmt: skip
    return {**made, **given}


def document(entries: Sequence[dict[str, Any]], ranks: int, groups: Groups) -> dict[str, Any]:
    """A dump; `groups` beside the one of all ranks: description and ranks by name."""
    named = {"0": ("default_pg", range(ranks)), **groups}
    return {
        "version": "2.10",
        "comm_lib_version": "2.26.2",
        "pg_config": {n: {"name": n, "desc": d, "ranks": str(list(r))} for n, (d, r) in named.items()},
        "pg_status": {},
        "entries": list(entries),
    }


def write(path: Path, data: bytes) -> Dump:
    """The dump that is read from a file with these bytes."""
    path.write_bytes(data)
    return read(path)
