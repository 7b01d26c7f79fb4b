"""Sizes as a command line says them: one, a list, or a range."""

from __future__ import annotations

from ringtree.bench.sweep import parse_bytes, sizes

MOST_SIZES = 1000


def byte_sizes(text: str) -> list[int]:
    """`1M`, `8,64K,16M`, `8:8G` (each twice the one before) or `8:8G:4` (four times); ValueError where it is none."""
    try:
        if ":" not in text:
            return [_positive(item) for item in text.split(",")]
        first, last, *factor = text.split(":")
        if len(factor) > 1:
            raise ValueError("too many colons")
        if _positive(last) < _positive(first):
            raise ValueError(f"{last} is less than {first}")
        found = sizes(_positive(first), _positive(last), factor=float(factor[0]) if factor else 2.0)
    except ValueError as error:
        raise ValueError(f"--bytes {text}: {error}; expected such as 1M, 8,64K,16M, 8:8G or 8:8G:4") from None
    if len(found) > MOST_SIZES:
        raise ValueError(f"--bytes {text}: {len(found)} sizes; expected at most {MOST_SIZES}")
    return found


def _positive(text: str) -> int:
    if not (nbytes := parse_bytes(text)):
        raise ValueError("0 bytes")
    return nbytes
