"""A program in a device's memory: its tables behind a head that says where each lies (csrc/device/program.h)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.program import Space
from ringtree.runtime.engines.device.encoding import DeviceCode, ProgramEncoder, finishes
from ringtree.runtime.engines.device.flagging import VECTOR_BYTES, FlaggedEncoder, Shares, finished_by, shares
from ringtree.runtime.engines.device.lanes import PROGRAM, LaneLayout
from ringtree.runtime.types import Dtype


class Meaning(NamedTuple):
    """The element type and the operation of a call, below 0 where it reduces nothing, and the call's digest."""

    kind: Dtype
    op: int
    digest: int

    @property
    def finishes(self) -> bool:
        """Whether results are finished at the end."""
        return self.op >= 0 and finishes(self.kind, self.op)


def program_tables(encoder: ProgramEncoder, code: DeviceCode, meaning: Meaning) -> tuple[bytes, int]:
    """The tables of a program, and how many bytes they are."""
    tables: list[NDArray[Any]] = [
        code.instructions,
        code.operands,
        code.settles,
        code.lands,
        encoder.sizes.astype(np.int64),
        np.asarray(encoder.starts, np.int64),
        *(np.asarray(encoder.offsets[space], np.int64) for space in encoder.offsets),
        code.outputs,
    ]
    parts, at = list[bytes](), PROGRAM.size
    places = []
    for table in tables:
        data = table.tobytes()
        places.append(at)
        parts.append(data + bytes(-len(data) % VECTOR_BYTES))
        at += len(parts[-1])
    head = PROGRAM.pack(
        encoder.window,
        encoder.windows,
        *places,
        len(code.instructions),
        len(code.outputs) if meaning.op >= 0 else 0,
        meaning.kind.itemsize,
        int(meaning.finishes),
        meaning.digest,
        int(meaning.kind),
        meaning.op,
    )
    return head + b"".join(parts), at


def flagged_tables(
    encoder: ProgramEncoder,
    code: DeviceCode,
    shared: Shares,
    scratch: int,
    meaning: Meaning,
    rank: int,
    lanes: LaneLayout,
) -> tuple[bytes, int]:
    """The tables of a small call, of all blocks, and how many bytes are each block's."""
    offsets = encoder.offsets[Space.INPUT], encoder.offsets[Space.OUTPUT]
    flagged = FlaggedEncoder(encoder.code, encoder.operands, offsets, shared, meaning.kind.itemsize, rank, lanes)
    runs = code.outputs if meaning.finishes else code.outputs[:0]
    blocks = len(shared.begin)
    shared_runs = shares(runs[:, 1], blocks)
    arithmetic = int(meaning.kind), meaning.op
    tables = [
        flagged.encode(block, scratch, arithmetic, meaning.digest, finished_by(shared_runs, runs, block))
        for block in range(blocks)
    ]
    each = max(map(len, tables))
    return b"".join(table.ljust(each, b"\0") for table in tables), each
