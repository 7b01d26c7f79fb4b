"""The entries of a checkpoint's table of contents: names that a trainer has, and parts that cover each tensor.

torch's reader takes a table as it is: of a tensor whose parts cover half of it, the rest keeps what was there before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Size
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from ringtree.files.json_values import shown
from ringtree.training.core.plan import STATE

MOST_PARTS = 4096
"""As many as a group has ranks, each of which writes at most one."""
MOST_SHOWN = 80
"""Characters of a name in an error."""
MOST_ELEMENTS = (1 << 63) - 1
PARTS = {"weights": 2, "optimizer": 3}
"""The names between slashes that a key has, by the first: weights/NAME, optimizer/NAME/KIND."""
COUNT = "step"
"""The kind of an optimizer's state that is one number."""
Box = tuple[tuple[int, ...], tuple[int, ...]]
"""A part of a tensor: where it begins and how long it is, on each axis."""


def fault_of(key: Any, entry: Any) -> str:
    """The fault of an entry, in words; "" where it has none. It raises what an attribute of another type raises."""
    if not isinstance(key, str) or PARTS.get(key.split("/")[0]) != key.count("/") + 1:
        return f"has the name {shown(key)}; expected weights/NAME or optimizer/NAME/KIND"
    if not isinstance(entry, TensorStorageMetadata):
        return f"{key[:MOST_SHOWN]!r} is a {type(entry).__name__}; expected tensors alone"
    size = entry.size
    if not isinstance(size, Size) or not _are_counts(size) or math.prod(size) > MOST_ELEMENTS:
        return f"{key[:MOST_SHOWN]!r} has the shape {shown(size)}; expected lengths of 0 or more"
    parts = [(tuple(part.offsets), tuple(part.sizes)) for part in entry.chunks]
    if len(parts) > MOST_PARTS or not _cover(parts, tuple(size)):
        return f"{key[:MOST_SHOWN]!r} has {len(parts)} parts that do not make up its shape {list(size)}"
    return ""


def check_sizes(
    sizes: Mapping[str, Size], weights: Mapping[str, Size], changed: Mapping[str, Size], optimizer: str
) -> dict[str, tuple[str, ...]]:
    """The kinds of the optimizer's state that a table has, by the names of parameters. `sizes`: of the table's entries;
    `weights`: of a rank's parameters; `changed`: of those whose state it has. ValueError: if the table lacks one of
    these weights, some of the states of a parameter, or has them in another shape."""
    for name, size in weights.items():
        _check_size(f"weights/{name}", sizes.get(f"weights/{name}"), size)
    kinds: dict[str, list[str]] = {}
    for key in sizes:
        what, name, *of_state = key.split("/")
        if what == "optimizer":
            kinds.setdefault(name, []).extend(of_state)
    of = STATE[optimizer]
    expected = {COUNT, *of} if of else set()
    for name, its in kinds.items():
        if {*its} != expected:
            raise ValueError(
                f"the state of {name[:MOST_SHOWN]!r} is {', '.join(sorted(its))[:80]}; expected all of "
                f"{', '.join(sorted(expected)) or 'nothing'}, or none"
            )
        for kind in its if name in changed else ():
            key = f"optimizer/{name}/{kind}"
            _check_size(key, sizes[key], Size() if kind == COUNT else changed[name])
    return {name: tuple(its) for name, its in kinds.items()}


def _check_size(key: str, found: Size | None, expected: Size) -> None:
    if found != expected:
        how = "is missing" if found is None else f"has the shape {shown([*found])}"
        raise ValueError(f"{key[:MOST_SHOWN]!r} {how}; expected the shape {[*expected]}")


def _are_counts(values: Sequence[Any]) -> bool:
    return all(type(n) is int and n >= 0 for n in values)


def _cover(parts: Sequence[Box], size: tuple[int, ...]) -> bool:
    """Whether each element of a tensor of that size is in exactly one part."""
    for begin, lengths in parts:
        if len(begin) != len(size) or len(lengths) != len(size) or not _are_counts((*begin, *lengths)):
            return False
        if any(first + n > whole for first, n, whole in zip(begin, lengths, size, strict=True)):
            return False
    filled = [part for part in parts if math.prod(part[1])]
    if sum(math.prod(lengths) for _, lengths in filled) != math.prod(size):
        return False
    return _are_apart(filled, 0, len(size))


def _are_apart(parts: Sequence[Box], axis: int, axes: int) -> bool:
    """Whether no two of the parts, which meet on the axes before, have an element in common."""
    if len(parts) < 2 or axis == axes:
        return len(parts) < 2
    cuts = sorted({begin[axis] for begin, _ in parts})
    return all(
        _are_apart([part for part in parts if part[0][axis] <= cut < part[0][axis] + part[1][axis]], axis + 1, axes)
        for cut in cuts
    )
