"""ElementType types of files: safetensors' names for them, and numpy's and torch's types."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ringtree.runtime.arrays import PAIR_DTYPES, dtype_named, dtype_of


class ElementType(NamedTuple):
    """An element type: its name in the file, numpy's and torch's name, and the bytes of an element."""

    name: str
    label: str
    itemsize: int


ELEMENTS = {
    e.name: e
    for e in (
        ElementType("BOOL", "bool", 1),
        ElementType("U8", "uint8", 1),
        ElementType("I8", "int8", 1),
        ElementType("F8_E5M2", "float8_e5m2", 1),
        ElementType("F8_E4M3", "float8_e4m3fn", 1),
        ElementType("F8_E8M0", "float8_e8m0fnu", 1),
        ElementType("F8_E4M3FNUZ", "float8_e4m3fnuz", 1),
        ElementType("F8_E5M2FNUZ", "float8_e5m2fnuz", 1),
        ElementType("I16", "int16", 2),
        ElementType("U16", "uint16", 2),
        ElementType("F16", "float16", 2),
        ElementType("BF16", "bfloat16", 2),
        ElementType("I32", "int32", 4),
        ElementType("U32", "uint32", 4),
        ElementType("F32", "float32", 4),
        ElementType("C64", "complex64", 8),
        ElementType("F64", "float64", 8),
        ElementType("I64", "int64", 8),
        ElementType("U64", "uint64", 8),
    )
}
"""The types of safetensors whose elements are whole bytes, by their names there. Files have the tensors of the last
type first."""
ORDER = {name: k for k, name in enumerate(ELEMENTS)}
BY_LABEL = {e.label: e for e in ELEMENTS.values()}
SHORT_FLOATS = {"bfloat16", *(label for label in BY_LABEL if label.startswith("float8"))}
"""The types that numpy does not have."""
OF_NPY = {
    e.label: e for e in (*ELEMENTS.values(), ElementType("C128", "complex128", 16)) if e.label not in SHORT_FLOATS
}
"""The types of .npy files that are written."""
WRITTEN = {e.name: e for e in (*ELEMENTS.values(), *OF_NPY.values())}
MOST_SAMPLED = 1024
PAIR_LABELS = {pair.label for pair in PAIR_DTYPES}


def of_array(dtype: np.dtype[Any]) -> ElementType:
    """The element type of numpy's arrays of another file, as `dtype` reads them."""
    return ElementType(dtype.str, dtype.str, dtype.itemsize)


def named_element(dtype: Any) -> ElementType:
    """The element type of a raw file, by numpy's name for it, torch's or ml_dtypes'. TypeError: for one that calls do
    not take."""
    label = str(dtype).removeprefix("torch.")
    if label not in BY_LABEL:
        try:
            label = dtype_of(dtype).label
        except TypeError as error:
            own = str(error).startswith("element type ")  # not numpy's, which names no remedy
            text = str(error) if own else f"element type {dtype!r} is not known; expected a name as float32, bfloat16"
            raise TypeError(text) from None
    return BY_LABEL.get(label) or ElementType(label, label, dtype_named(label).itemsize)


@cache
def numpy_dtype(element: ElementType) -> np.dtype[Any]:
    """Numpy's type. Of the short floats that numpy does not have: ml_dtypes' where that is installed, else the
    unsigned integers of their bits, which calls take with `dtype=`."""
    if element.label not in SHORT_FLOATS:
        return dtype_named(element.label) if element.label in PAIR_LABELS else np.dtype(element.label)
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype(f"u{element.itemsize}")
    return np.dtype(getattr(ml_dtypes, element.label, f"u{element.itemsize}"))


@cache
def torch_dtype(element: ElementType) -> Any:
    """Torch's type. TypeError: if this torch has none such."""
    import torch

    label = element.label if element.label in {*BY_LABEL, *PAIR_LABELS} else np.dtype(element.label).name
    found = getattr(torch, label, None)
    if not isinstance(found, torch.dtype) or not np.dtype(numpy_dtype(element)).isnative:
        raise TypeError(f"torch has no element type {element.label}; expected framework='numpy'")
    return found


def element_of(x: Any, what: str, types: Mapping[str, ElementType] = BY_LABEL) -> ElementType:
    """The element type of a numpy array or a torch tensor. TypeError: for one that is not among a file's `types`;
    `what` names the array."""
    dtype = getattr(x, "dtype", None)
    if elsewhere := _elsewhere(x):
        raise TypeError(f"{what} is {elsewhere}")
    label = str(dtype).removeprefix("torch.") if _is_tensor(x) else getattr(dtype, "name", "")
    if not (_is_tensor(x) or isinstance(x, np.ndarray)) or label not in types:
        kind = f"a {type(x).__name__}" if dtype is None or isinstance(x, np.generic) else f"of {dtype}"
        raise TypeError(f"{what} is {kind}; expected an array or a tensor of one of {', '.join(types)}")
    return types[label]


def raw_bytes(x: Any) -> Any:
    """The bytes of an array's or a tensor's elements in C's order, as an array of uint8; copied where they do not lie
    so."""
    if _is_tensor(x):
        import torch

        return x.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8).numpy()
    return np.ascontiguousarray(x, x.dtype.newbyteorder("=")).reshape(-1).view(np.uint8)


def sampled_bytes(x: Any) -> bytes:
    """The bytes of at most MOST_SAMPLED elements, evenly spaced in C's order, by which replicas of an array differ."""
    if not (count := int(np.prod(x.shape, dtype=np.int64))):
        return b""
    places = np.linspace(0, count - 1, min(count, MOST_SAMPLED)).astype(np.int64)
    if not _is_tensor(x):
        return bytes(raw_bytes(x.flat[places]))
    import torch

    raw = x.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8).reshape(count, -1)
    return bytes(raw_bytes(raw[torch.from_numpy(places).to(x.device)]))


def _elsewhere(x: Any) -> str:
    """The form of an array that is more than its elements at one place here, and the remedy; "" where it is none."""
    if isinstance(x, np.ma.MaskedArray):
        return "a masked array; expected an array without a mask: x.filled()"
    if not _is_tensor(x):
        return ""
    if hasattr(x, "full_tensor"):
        return f"a {type(x).__name__}; expected x.full_tensor() on all ranks"
    if x.is_meta:
        return "on the device meta, without elements; expected a tensor that has them"
    return "" if str(x.layout) == "torch.strided" else f"of layout {x.layout}; expected x.to_dense()"


def _is_tensor(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)
