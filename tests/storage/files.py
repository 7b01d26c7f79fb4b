"""Files of tensors: made by safetensors itself, and broken ones."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

Tensors = dict[str, Any]
DTYPES = ("bool", "uint8", "int16", "float16", "int32", "float32", "float64", "int64", "uint64", "complex64")


def tensors(seed: int = 0, large: int = 0) -> Tensors:
    """Of every type, scalars and empty ones; with `large`, one of so many bytes more."""
    draw = np.random.default_rng(seed)
    found: Tensors = {
        f"of.{name}": draw.integers(0, 2, (5, 3)).astype(name) * draw.integers(1, 90, (5, 3)).astype(name)
        for name in DTYPES
    }
    found["of.bfloat16"] = draw.standard_normal((7, 2)).astype(ml_dtypes.bfloat16)
    found["of.float8"] = draw.standard_normal(9).astype(ml_dtypes.float8_e4m3fn)
    found["scalar"], found["empty"] = np.array(3.5, np.float32), np.zeros((0, 4), np.float32)
    found['Ünïcode / "name"'] = np.arange(11, dtype=np.int8)
    if large:
        found["large"] = draw.integers(0, 256, large, np.uint8)
    return found


def plain(found: Tensors) -> Tensors:
    """Tensors of types that safetensors writes from numpy."""
    return {name: x for name, x in found.items() if x.dtype.name not in ("float8_e4m3fn", "complex64")}


def written(path: Path, entries: object, data: bytes = b"", length: int | None = None, pad: bool = True) -> Path:
    """A file with that header, text or value, whatever is wrong with it."""
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    text += b" " * (-len(text) % 8) if pad else b""
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


def forget(path: Path) -> None:
    """Drops the file's pages from the page cache."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def same(found: Tensors, expected: Tensors) -> bool:
    """Whether names, types, shapes and bytes are the same."""
    return found.keys() == expected.keys() and all(
        found[k].dtype == x.dtype and found[k].shape == x.shape and found[k].tobytes() == x.tobytes()
        for k, x in expected.items()
    )


def caught(call: Callable[[], object]) -> str:
    """The error of a call, as `kind: line`."""
    try:
        call()
    except (ValueError, TypeError, OSError, RuntimeError, MemoryError, ImportError) as error:
        return f"{type(error).__name__}: {error}"
    return "no error"
