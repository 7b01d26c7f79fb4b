"""The element types and operations of devices' programs, by the names of csrc/kernels/elements.h."""

from __future__ import annotations

from typing import NamedTuple

from ringtree.runtime.types import COMPLEX, INTEGERS, LOGICAL, OPS, PAIRS, SHORT_FLOATS, Dtype, supported

_STORED = {
    Dtype.BOOL: "uint8_t",
    Dtype.FLOAT32: "float",
    Dtype.FLOAT64: "double",
    Dtype.COMPLEX64: "float",
    Dtype.COMPLEX128: "double",
} | {dtype: f"{dtype.label}_t" for dtype in INTEGERS}
_SHORT = {
    Dtype.FLOAT16: "Float16",
    Dtype.BFLOAT16: "Bfloat16",
    Dtype.FLOAT8_E4M3FN: "Float8E4m3fn",
    Dtype.FLOAT8_E5M2: "Float8E5m2",
}
_ONE = {
    Dtype.FLOAT16: "0x3c00",
    Dtype.BFLOAT16: "0x3f80",
    Dtype.FLOAT32: "0x3f800000",
    Dtype.FLOAT64: "0x3ff0000000000000",
    Dtype.FLOAT8_E4M3FN: "0x38",
    Dtype.FLOAT8_E5M2: "0x3c",
}
"""The bits of the number 1, where they are not 1."""
_FUNCTION = {
    "sum": "Sum",
    "avg": "Sum",
    "prod": "Prod",
    "max": "Max",
    "min": "Min",
    "band": "Band",
    "bor": "Bor",
    "bxor": "Bxor",
    "land": "Band",
    "lor": "Bor",
    "lxor": "Bxor",
    "minloc": "Located<Less>",
    "maxloc": "Located<Greater>",
}
_AS_LOGICAL = {"sum": "lor", "max": "lor", "prod": "land", "min": "land", "band": "land", "bor": "lor", "bxor": "lxor"}
"""The logical operation that another is for truth values."""


class DeviceTypes(NamedTuple):
    """The arithmetic of a reduction: on `parts` of an element, each of which is an `element`, by `function`; at its
    end, an average of `finish` is divided, another `finish` is made a truth value."""

    element: str
    function: str
    parts: int = 1
    finish: str = ""
    divides: bool = False

    @property
    def options(self) -> tuple[str, ...]:
        """The definitions that csrc/device/cuda.h is compiled with."""
        given = [f"-DRINGTREE_TYPE={self.element}", f"-DRINGTREE_OP={self.function}", f"-DRINGTREE_PARTS={self.parts}"]
        if self.finish:
            given += [f"-DRINGTREE_FINISH_TYPE={self.finish}", f"-DRINGTREE_FINISH={int(self.divides)}"]
        return tuple(given)


def types_of(dtype: Dtype, op: str) -> DeviceTypes:
    """The types of a reduction. TypeError where `dtype` has no such reduction."""
    if op not in OPS or not supported(dtype, op):
        raise TypeError(f"{op} of {dtype.label} is not supported")
    if dtype is Dtype.BOOL or op in LOGICAL:
        truth = _truth(dtype)
        word = op if op in LOGICAL else _AS_LOGICAL[op]
        return DeviceTypes(truth, _FUNCTION[word], finish=truth if op in LOGICAL else "")
    if dtype in PAIRS:
        value, index = (part for part in dtype.label.split("_"))
        return DeviceTypes(f"Pair<{_c_type(value)},{_c_type(index)}>", _FUNCTION[op])
    if dtype in COMPLEX and op == "prod":
        return DeviceTypes(f"Plain<Complex<{_STORED[dtype]}>>", "ComplexProd")
    if dtype in SHORT_FLOATS:
        element = _SHORT[dtype]
    elif dtype in INTEGERS and op in ("sum", "prod", "avg", "band", "bor", "bxor"):
        element = f"Plain<{_unsigned(dtype)}>"  # the same bits, and no overflow that is left undefined
    else:
        element = f"Plain<{_STORED[dtype]}>"
    finish = "" if op != "avg" else element if dtype in SHORT_FLOATS else f"Plain<{_STORED[dtype]}>"
    return DeviceTypes(element, _FUNCTION[op], 2 if dtype in COMPLEX else 1, finish, op == "avg")


def _unsigned(dtype: Dtype) -> str:
    return f"uint{8 * dtype.itemsize}_t"


def _truth(dtype: Dtype) -> str:
    """A type whose values are true or false: all bits but a float's sign count."""
    bits = 8 * dtype.itemsize
    mask = (1 << bits) - 1 if dtype is Dtype.BOOL or dtype in INTEGERS else (1 << (bits - 1)) - 1
    return f"Truth<uint{bits}_t,{mask:#x},{_ONE.get(dtype, '1')}>"


def _c_type(label: str) -> str:
    return {"float32": "float", "float64": "double"}.get(label, f"{label}_t")
