"""Users' arrays as addresses: numpy arrays, torch tensors (torch is never imported here), lists and numbers; arrays in
a device's memory, where the caller takes them.

Engines see an address, a count and a type's code. Shapes, kinds and owners of memory are known here only.
"""

from __future__ import annotations

import math
import sys
import zlib
from typing import Any

import numpy as np

from ringtree.runtime.arrays import device as devices
from ringtree.runtime.communicator.arguments import described
from ringtree.runtime.types import BY_LABEL, PAIRS, SHORT_FLOATS, Dtype

_BY_TYPE: dict[type, Dtype] = {np.dtype(char).type: BY_LABEL[np.dtype(char).name] for char in "?bhilqBHILQefdFD"}
"""Element types by the type of numpy's scalars; ml_dtypes' are added when they are met, so that it is imported by its
users only."""
_BY_TENSOR_TYPE: dict[Any, Dtype] = {}
"""Element types by torch's dtypes, as they are met."""
_FROM_ML_DTYPES = (Dtype.BFLOAT16, Dtype.FLOAT8_E4M3FN, Dtype.FLOAT8_E5M2)
PAIR_DTYPES: dict[Dtype, np.dtype[Any]] = {
    d: np.dtype(list(zip(("value", "index"), d.label.split("_"), strict=True)), align=True) for d in PAIRS
}
"""The layouts of pairs; the fields may have any names."""
_RAW = {1: Dtype.UINT8, 2: Dtype.UINT16}
"""The type that holds the bits of a named type, by its size in bytes."""
_HINTS = {
    "O": "; other objects travel by the calls whose names end in _object",
    "U": "; texts travel by the calls whose names end in _object",
    "S": "; texts travel by the calls whose names end in _object",
    "V": "; a pair is laid out as C does it: np.dtype([...], align=True)",
}
"""The remedy for an unsupported kind of element."""
SUPPORTED = ", ".join(BY_LABEL)
_OPAQUE_CODES = range(1 << 8, 1 << 15)
"""The codes of opaque types, in messages."""


class Array:
    """A contiguous array. `owner` is the numpy array or tensor whose memory it is; `copied`: not the user's own;
    `named`: the element type that the caller gave, or None; `device`: the number of the CUDA device whose memory it is,
    None on the host. `opaque`: the name of an element type that engines do not know, whose bytes are only moved: then
    `dtype` is uint8 and `count` is in bytes, `unit` of them an element; "" and 1 for all other types."""

    __slots__ = ("address", "copied", "count", "device", "dtype", "named", "nbytes", "opaque", "owner", "shape", "unit")

    def __init__(
        self,
        owner: Any,
        address: int,
        shape: tuple[int, ...],
        dtype: Dtype,
        count: int,
        copied: bool = False,
        named: Any = None,
        device: int | None = None,
        opaque: str = "",
    ) -> None:
        self.device = device
        self.opaque, self.unit = opaque, _itemsize(owner) if opaque else 1
        count *= self.unit
        self.owner, self.address, self.shape, self.dtype, self.count = owner, address, shape, dtype, count
        self.nbytes = count * dtype.itemsize
        self.copied, self.named = copied, named

    def overlaps(self, other: Array) -> bool:
        """Whether any byte belongs to both arrays."""
        return self.address < other.address + other.nbytes and other.address < self.address + self.nbytes

    @property
    def label(self) -> str:
        """The element type's name."""
        return self.opaque or self.dtype.label

    @property
    def digest(self) -> int:
        """32 bits of the name of an opaque type; 0 for all others."""
        return zlib.crc32(self.opaque.encode())

    @property
    def code(self) -> int:
        """The element type's code, by which a message finds out whether it fits a receive."""
        return _OPAQUE_CODES[self.digest % len(_OPAQUE_CODES)] if self.opaque else int(self.dtype)

    def copy(self) -> Array:
        """A copy in memory of its own."""
        if _is_tensor(self.owner):
            return readable(self.owner.clone(), self.named, self.device is not None, bool(self.opaque))
        return readable(self.owner.copy(), self.named, moved=bool(self.opaque))

    def format(self) -> str | None:
        """The buffer protocol's format where that identifies the element type; None where it does not, or where there
        is no buffer: bits whose type was named, ml_dtypes' types, pairs, tensors."""
        if not isinstance(self.owner, np.ndarray) or _BY_TYPE.get(self.owner.dtype.type) is not self.dtype:
            return None
        buffer: Any = self.owner
        return None if self.dtype in _FROM_ML_DTYPES else memoryview(buffer).format


def readable(x: Any, dtype: Any = None, on_device: bool = False, moved: bool = False) -> Array:
    """`x` as an input: copied where it is not contiguous. TypeError for element types that engines do not know.

    `dtype` names the type of the bits of a raw uint8 or uint16 array, as "bfloat16"; for other arrays it is theirs.
    `on_device`: also an array in a device's memory; else that is a TypeError. `moved`: nothing is computed with the
    elements: a numpy array's or a tensor's may be of any type of a fixed size."""
    opaque = _opaque(x) if moved else ""
    if _is_tensor(x):
        kind = _meant(_tensor_dtype(x, on_device, opaque), dtype)
        whole = x.detach() if x.requires_grad else x
        if not _plain(x):
            whole = whole.resolve_conj().resolve_neg().contiguous()
        address = _address(whole)
        copied = address != x.data_ptr()
        return Array(whole, address, tuple(x.shape), kind, x.numel(), copied, dtype, _device_of(x), opaque)
    if devices.is_array(x):
        return _in_device_memory(x, "the array", dtype, on_device)
    if type(x) is np.ndarray:
        y = x
    else:
        _check_unmasked(x, "the array")
        y = np.from_dlpack(x) if hasattr(x, "__dlpack__") and not hasattr(x, "__array__") else np.asarray(x)
    kind = Dtype.UINT8 if opaque else _meant(_numpy_dtype(y.dtype), dtype)
    flags = y.flags
    whole = y if flags.c_contiguous and flags.aligned else np.array(y, order="C", copy=True)
    address = whole.__array_interface__["data"][0]
    return Array(whole, address, whole.shape, kind, whole.size, whole is not x, dtype, opaque=opaque)


def writable(x: Any, what: str = "out", dtype: Any = None, on_device: bool = False, moved: bool = False) -> Array:
    """`x` as memory to write to. TypeError or ValueError where it cannot be written as it lies. Others as above."""
    opaque = _opaque(x) if moved else ""
    if _is_tensor(x):
        kind = _meant(_tensor_dtype(x, on_device, opaque), dtype, what)
        if not _plain(x):
            if not x.is_contiguous():
                raise ValueError(f"{what} is a tensor that is not contiguous; expected a contiguous one")
            raise ValueError(f"{what} is a tensor that shows its memory negated or conjugated; expected a plain one")
        owner = x.detach() if x.requires_grad else x
        return Array(owner, _address(x), tuple(x.shape), kind, x.numel(), False, dtype, _device_of(x), opaque)
    if devices.is_array(x):
        return _in_device_memory(x, what, dtype, on_device, writes=True)
    if isinstance(x, memoryview | bytearray):
        x = np.asarray(x)
    if not isinstance(x, np.ndarray):
        raise TypeError(f"{what} is {described(x)}; expected a numpy array or a torch CPU tensor")
    _check_unmasked(x, what)
    kind = Dtype.UINT8 if opaque else _meant(_numpy_dtype(x.dtype), dtype, what)
    if not x.flags.writeable:
        raise ValueError(f"{what} is read-only; expected an array that can be written")
    if not x.flags.c_contiguous:
        raise ValueError(f"{what} is not contiguous; expected a C-contiguous array")
    if not x.flags.aligned:
        raise ValueError(f"{what} is not aligned; expected an array that begins at a multiple of its elements' size")
    return Array(x, x.__array_interface__["data"][0], x.shape, kind, x.size, named=dtype, opaque=opaque)


def shape_of(x: Any) -> tuple[int, ...] | None:
    """The shape of a numpy array or a tensor; None of all else."""
    return tuple(x.shape) if type(x) is np.ndarray or _is_plain_tensor(x) else None


def blank(x: Any, shape: tuple[int, ...]) -> Any:
    """An uninitialized array of that shape, of the kind and type of `x`: a numpy array, or a tensor."""
    return np.empty(shape, x.dtype) if type(x) is np.ndarray else x.new_empty(shape)


def target(out: Any, like: Array, shape: tuple[int, ...]) -> Array:
    """`out` as the array for `shape` elements of the type of `like`; a new array of that kind where it is None."""
    if out is None:
        return new(like, shape)
    if out is like.owner and not like.copied and (_is_tensor(out) or (like.device is None and out.flags.writeable)):
        array = like
    else:
        array = writable(out, "out", like.named, like.device is not None, moved=bool(like.opaque))
    if array.device != like.device:
        raise TypeError(f"out is {_placed(array.device)}; expected {_placed(like.device)}, as the input is")
    if array.dtype is not like.dtype or array.opaque != like.opaque:
        raise TypeError(f"out is {array.label}; expected {like.label}, as the input is")
    if array.count != math.prod(shape) * like.unit:
        raise ValueError(f"out has {array.count // like.unit} elements; expected {math.prod(shape)}, of shape {shape}")
    return array


def new(like: Array, shape: tuple[int, ...]) -> Array:
    """An uninitialized array of the kind and type of `like`."""
    moved = bool(like.opaque)
    if _is_tensor(like.owner):
        return writable(like.owner.new_empty(shape), "out", like.named, like.device is not None, moved)
    if like.device is not None:
        return writable(devices.blank(like.owner, shape), "out", like.named, on_device=True)
    return writable(np.empty(shape, like.owner.dtype), "out", like.named, moved=moved)


def dtype_named(dtype: Any) -> np.dtype[Any]:
    """The numpy dtype that `dtype` means; TypeError where engines do not know it. The types that numpy does not have
    need ml_dtypes."""
    label = str(dtype).removeprefix("torch.")
    if BY_LABEL.get(label) in _FROM_ML_DTYPES:
        try:
            import ml_dtypes
        except ImportError:
            raise TypeError(f"{label} arrays need the package ml_dtypes: pip install ml_dtypes") from None
        dtype = getattr(ml_dtypes, label)
    pair = PAIR_DTYPES.get(BY_LABEL.get(label, Dtype.BOOL))
    try:
        found: np.dtype[Any] = np.dtype(dtype) if pair is None else pair
    except TypeError:
        raise TypeError(f"dtype is {dtype!r}; expected one of {SUPPORTED}") from None
    _numpy_dtype(found)
    return found


def dtype_of(dtype: Any) -> Dtype:
    """The element type that `dtype` means, also where only engines know it by that name; TypeError for another."""
    return BY_LABEL.get(str(dtype).removeprefix("torch.")) or _numpy_dtype(dtype_named(dtype))


def _meant(found: Dtype, named: Any, what: str = "the array") -> Dtype:
    """The type of elements that are stored as `found` when the caller names their type."""
    if named is None:
        return found
    label = str(named).removeprefix("torch.")
    meant = BY_LABEL.get(label)
    if meant is None:
        meant = _numpy_dtype(dtype_named(named))
    if meant is found:
        return found
    if meant not in SHORT_FLOATS:
        raise TypeError(f"{what} is {found.label}; expected {meant.label}(dtype=)")
    raw = _RAW[meant.itemsize]
    if found is not raw:
        raise TypeError(f"{what} is {found.label}; expected {meant.label}(dtype=), or {raw.label} for its bits")
    return meant


def _is_tensor(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def _is_plain_tensor(x: Any) -> bool:
    """Whether `x` is a tensor of torch's own class, which has no subclass's ways."""
    torch = sys.modules.get("torch")
    return torch is not None and type(x) is torch.Tensor


def _check_unmasked(x: Any, what: str) -> None:
    masked = sys.modules.get("numpy.ma")
    if masked is not None and isinstance(x, masked.MaskedArray):
        raise TypeError(f"{what} has a mask, which is not passed; expected x.filled(value), or x.data without the mask")


def _plain(tensor: Any) -> bool:
    """Whether a tensor's memory holds its elements in order: a lazily negated or conjugated view does not."""
    return bool(tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg())


def _device_of(x: Any) -> int | None:
    return None if x.is_cpu else int(x.device.index)


def _placed(device: int | None) -> str:
    return "on the host" if device is None else f"on device {device}"


def _in_device_memory(x: Any, what: str, dtype: Any, taken: bool, writes: bool = False) -> Array:
    if not taken:
        raise TypeError(f"{what} is {described(x)} in a device's memory; expected one on the host")
    seen = devices.look(x, what, writes)
    kind = _meant(_numpy_dtype(dtype_named(seen.label)), dtype, what)
    return Array(seen.owner, seen.address, seen.shape, kind, math.prod(seen.shape), seen.copied, dtype, seen.device)


def _itemsize(x: Any) -> int:
    size: int = x.element_size() if _is_tensor(x) else x.dtype.itemsize
    return size


def _opaque(x: Any) -> str:
    """The name of the element type of an array whose elements can only be moved; "" for all else."""
    if _is_tensor(x):
        label = str(x.dtype).removeprefix("torch.")
        return "" if label in BY_LABEL else label
    if not isinstance(x, np.ndarray) or x.dtype.hasobject or not x.dtype.itemsize or x.dtype.kind == "T":
        return ""
    try:
        _numpy_dtype(x.dtype)
    except TypeError:
        return str(x.dtype)
    return ""


def _tensor_dtype(x: Any, on_device: bool = False, opaque: str = "") -> Dtype:
    if not (x.is_cpu or (on_device and x.is_cuda)) or x.layout is not sys.modules["torch"].strided:
        raise TypeError(f"got a {str(x.layout)[6:]} tensor on {x.device}; expected a dense one on the CPU")
    found = Dtype.UINT8 if opaque else _BY_TENSOR_TYPE.get(x.dtype)
    if found is None:
        label = str(x.dtype).removeprefix("torch.")
        if label not in BY_LABEL:
            raise TypeError(f"element type {label} is not supported; expected one of {SUPPORTED}")
        found = _BY_TENSOR_TYPE[x.dtype] = BY_LABEL[label]
    return found


def _address(x: Any) -> int:
    address: int = x.data_ptr()
    if not address and x.numel():  # a wrapper of others, or a tensor without memory
        raise TypeError(f"got {described(x)} without memory of its own; expected a plain tensor")
    return address


def _numpy_dtype(dtype: np.dtype[Any]) -> Dtype:
    found = _BY_TYPE.get(dtype.type)
    if found is None and BY_LABEL.get(dtype.name) in _FROM_ML_DTYPES:
        found = _BY_TYPE[dtype.type] = BY_LABEL[dtype.name]
    if found is None and dtype.names is not None:
        found = next((d for d, known in PAIR_DTYPES.items() if _layout(known) == _layout(dtype)), None)
    if found is None or not dtype.isnative:
        swapped = "; x.astype(x.dtype.newbyteorder('=')) has this machine's order of bytes"
        hint = _HINTS.get(dtype.kind, "") if found is None or dtype.isnative else swapped
        raise TypeError(f"element type {dtype} is not supported; expected one of {SUPPORTED}{hint}")
    return found


def _layout(pair: np.dtype[Any]) -> tuple[Any, ...]:
    fields: Any = pair.fields
    return (pair.itemsize, *(fields[name][:2] for name in pair.names or ()))
