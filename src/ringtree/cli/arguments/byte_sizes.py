"""Sizes on a command line: one, a list, or a range."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from ringtree.cli.arguments.subject import given
from ringtree.ir.collective import COLLECTIVES

MOST_BYTES = 1 << 50
"""The largest size: a thousand ranks' bytes are still counted in 64 bits."""
LEAST_FACTOR = 1.001
"""The least factor from one size to the next: a smaller one's list would not end."""
MOST_SIZES = 4096
"""The most sizes of a range: `-b 1M -e 4G -i 1M` has as many."""


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
        return sizes(_positive(first), _positive(last), factor=float(factor[0]) if factor else 2.0)
    except ValueError as error:
        raise ValueError(f"--bytes {text}: {error}; expected such as 1M, 8,64K,16M, 8:8G or 8:8G:4") from None


def sizes_of(args: argparse.Namespace, usual: tuple[str, str, float]) -> list[int]:
    """The sizes of --bytes, or of -b, -e and -f, each once and in order; the `usual` first, last and factor stand
    for what is not given. 0 alone for a collective without data."""
    ends = given(args, ("minbytes", "maxbytes", "stepfactor"))
    if without_data(args.collective, ["--bytes"] * (args.bytes is not None) + ends):
        return [0]
    if args.bytes is not None:
        if ends:
            raise ValueError(f"--bytes and {ends[0]} both name sizes: expected one of them")
        return sorted(set(byte_sizes(args.bytes)))
    first, last = (
        parse_bytes(text or other) for text, other in zip((args.minbytes, args.maxbytes), usual[:2], strict=True)
    )
    return sizes(first, last, factor=usual[2] if args.stepfactor is None else args.stepfactor)


def listed_sizes(text: str | None, collective: str) -> list[int]:
    """The sizes of --bytes, such as `8,64K`, which must be given; 0 alone for a collective without data."""
    if without_data(collective, ["--bytes"] * (text is not None)):
        return [0]
    if text is None:
        raise ValueError("required: --bytes, the size of the whole vector, such as 64K or 16M")
    return [parse_bytes(size) for size in text.split(",")]


def in_blocks(nbytes: Sequence[int], collective: str, ranks: int) -> tuple[list[int], str]:
    """Sizes that the blocks of a collective divide, as nccl-tests rounds them down, each once; and in words which were
    rounded, "" where none was. ValueError where a block has no byte."""
    if collective not in COLLECTIVES or not COLLECTIVES[collective].blocked or ranks < 1:
        return list(nbytes), ""
    if small := next((n for n in nbytes if 0 < n < ranks), 0):
        raise ValueError(
            f"--bytes {small}: the vector of {collective} is a block for each of {ranks} ranks; expected at least "
            f"{ranks} bytes"
        )
    rounded = {n: n // ranks * ranks for n in nbytes}
    odd = [f"{n:,} to {whole:,} bytes" for n, whole in rounded.items() if n != whole]
    return list(
        dict.fromkeys(rounded.values())
    ), f"rounded down to {ranks} equal blocks: {', '.join(odd)}" if odd else ""


def without_data(collective: str, options: Sequence[str]) -> bool:
    """Whether calls of the collective have no size: a barrier's. ValueError where options for sizes are given to it."""
    if collective not in COLLECTIVES or not COLLECTIVES[collective].repeats:
        return False
    if options:
        raise ValueError(f"{options[0]}: a {collective} moves no data; leave it out")
    return True


def _positive(text: str) -> int:
    if not (nbytes := parse_bytes(text)):
        raise ValueError("0 bytes")
    return nbytes


def parse_bytes(text: str) -> int:
    """`8`, `4K`, `64M`, `1G`: binary units, as nccl-tests reads them."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGTkmgt]?)(?:i?[Bb])?", text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a size: expected a number of bytes such as 8, 64K, 16M, 1G or 1T")
    nbytes = float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " ")
    if nbytes > MOST_BYTES:
        raise ValueError(f"{text[:40]!r}: {nbytes:.3g} bytes; expected at most {MOST_BYTES}")
    return int(nbytes)


def sizes(first: int, last: int, *, factor: float | None = None, step: int | None = None) -> list[int]:
    """Bytes from `first` to `last`, each `factor` times or `step` more than the one before."""
    if first < 1 or last < first:
        raise ValueError(f"sizes from {first} to {last} bytes: expected -b of at least 1 and -e not below it")
    if factor is not None and step is not None:
        raise ValueError("-f and -i together: expected a factor or a step, not both")
    if factor is not None and not LEAST_FACTOR <= factor <= MOST_BYTES:
        raise ValueError(f"-f {factor:g}: expected a factor over 1, from {LEAST_FACTOR} to {MOST_BYTES}")
    if step is not None and step < 1:
        raise ValueError(f"-i {step}: expected a step of at least 1 byte")
    found = [first]
    while True:
        after = found[-1] + step if step is not None else int(found[-1] * (factor or 2))
        after = max(after, found[-1] + 1)
        if after > last:
            return found
        if len(found) == MOST_SIZES:
            by = f"-i {step}" if step is not None else f"-f {factor or 2:g}"
            larger = f"expected a larger {'factor' if step is None else 'step'}"
            raise ValueError(f"{by}: more than {MOST_SIZES} sizes from {first} to {last} bytes; {larger}")
        found.append(after)
