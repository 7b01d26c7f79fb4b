"""Users' arrays: those read in place, copied, and refused."""

from __future__ import annotations

import re
import types
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16, float8_e5m2

from ringtree.runtime.arrays import dtype_named, new, readable, target, writable
from ringtree.runtime.types import PAIRS, SHORT_FLOATS, Dtype


@pytest.mark.parametrize("dtype", Dtype)
def test_every_type_has_its_code_and_size(dtype: Dtype) -> None:
    kind = dtype_named(dtype.label)
    array = readable(np.ones((2, 3), kind))
    assert (array.dtype, array.dtype.itemsize) == (dtype, kind.itemsize)
    assert (array.shape, array.count, array.nbytes) == ((2, 3), 6, 6 * kind.itemsize)
    assert new(array, (4,)).owner.dtype == kind


def test_a_pair_is_any_struct_of_two_fields_as_c_lays_it_out() -> None:
    assert readable(np.zeros(2, [("mass", "f4"), ("where", "i4")])).dtype is Dtype.FLOAT32_INT32
    assert readable(np.zeros(2, np.dtype([("v", "f8"), ("i", "i4")], align=True))).dtype is Dtype.FLOAT64_INT32
    for other in ([("v", "f8"), ("i", "i4")], [("i", "i4"), ("v", "f4")], [("v", ">f4"), ("i", ">i4")], [("v", "f4")]):
        with pytest.raises(TypeError, match="is not supported"):
            readable(np.zeros(2, other))


def test_both_of_numpys_64_bit_integers_are_int64() -> None:
    assert readable(np.zeros(1, np.longlong)).dtype is readable(np.zeros(1, np.int64)).dtype is Dtype.INT64


def test_a_contiguous_array_is_taken_as_it_lies() -> None:
    x = np.arange(5.0)
    array = readable(x)
    assert array.owner is x
    assert not array.copied
    assert array.address == x.ctypes.data


@pytest.mark.parametrize(
    "x",
    [
        np.arange(10.0)[::2],
        np.arange(6.0).reshape(2, 3).T,
        np.broadcast_to(np.float32(3), (4,)),
        np.frombuffer(b"x" * 17, np.uint8)[1:].view(np.float64),
        [1, 2, 3],
        2.5,
    ],
)
def test_anything_else_is_copied(x: Any) -> None:
    array = readable(x)
    assert array.copied
    assert np.array_equal(array.owner, np.asarray(x))
    assert array.owner.flags.c_contiguous
    assert array.owner.flags.aligned


@pytest.mark.parametrize("x", [np.zeros(2, np.longdouble), np.zeros(2, ">f4"), ["a"], [None]])
def test_other_types_are_refused_naming_the_supported(x: Any) -> None:
    with pytest.raises(TypeError, match="is not supported; expected one of bool, int8, int16, int32, int64, uint8, "):
        readable(x)


def test_raw_bits_have_the_callers_dtype() -> None:
    raw = np.zeros((2, 3), np.uint16)
    array = readable(raw, "bfloat16")
    assert (array.dtype, array.address, array.format()) == (Dtype.BFLOAT16, raw.ctypes.data, None)
    assert [a.dtype for a in (array.copy(), new(array, (4,)), target(raw, array, (2, 3)))] == [Dtype.BFLOAT16] * 3
    assert readable(np.zeros(2, bfloat16), bfloat16).dtype is Dtype.BFLOAT16
    assert readable(np.zeros(2), "float64").dtype is Dtype.FLOAT64
    with pytest.raises(TypeError, match=r"out is float32; expected bfloat16\(dtype=\), or uint16 for its bits"):
        writable(np.zeros(2, np.float32), "out", "bfloat16")
    with pytest.raises(TypeError, match=r"the array is float32; expected int32\(dtype=\)"):
        readable(np.zeros(2, np.float32), np.int32)


def test_a_format_gives_the_type_or_none() -> None:
    chars = "?bhilqBHILQefd"
    assert [readable(np.zeros(1, c)).format() for c in (*chars, "F", "D")] == [*chars, "Zf", "Zd"]
    for kind in (bfloat16, float8_e5m2, [("v", "f4"), ("i", "i4")]):
        assert readable(np.zeros(1, kind)).format() is None
    assert readable(np.zeros(1, np.uint8), "float8_e5m2").format() is None


def test_an_output_must_be_writable_as_it_lies() -> None:
    read_only = np.zeros(3)
    read_only.flags.writeable = False
    for bad, expected in (
        (read_only, "out is read-only"),
        (np.zeros((3, 2))[:, 0], "out is not contiguous"),
        ([1.0], "out is a list"),
        (3.5, "out is a float"),
        (b"x", "out is a bytes"),
    ):
        with pytest.raises((TypeError, ValueError), match=expected):
            writable(bad)


def test_an_output_must_fit() -> None:
    like = readable(np.zeros((2, 3), np.float32))
    with pytest.raises(ValueError, match=re.escape("out has 5 elements; expected 6, of shape (2, 3)")):
        target(np.zeros(5, np.float32), like, (2, 3))
    with pytest.raises(TypeError, match="out is float64; expected float32, as the input is"):
        target(np.zeros(6), like, (2, 3))
    out = np.zeros(6, np.float32)
    assert target(out, like, (2, 3)).owner is out


def test_a_read_only_array_in_place_is_refused() -> None:
    x = np.zeros(3)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        target(x, readable(x), (3,))


def test_overlap_is_of_bytes() -> None:
    x = np.zeros(8)
    assert readable(x[:5]).overlaps(readable(x[4:]))
    assert not readable(x[:4]).overlaps(readable(x[4:]))
    assert not readable(x[:0]).overlaps(readable(x))
    copy = readable(x).copy()
    assert copy.address != readable(x).address


def test_arrays_of_other_libraries_come_by_dlpack() -> None:
    x = np.arange(4.0)
    foreign = types.SimpleNamespace(__dlpack__=x.__dlpack__, __dlpack_device__=x.__dlpack_device__)
    array = readable(foreign)
    assert np.array_equal(array.owner, x)


@pytest.mark.torch
def test_tensors_stay_tensors() -> None:
    import torch

    x = torch.zeros((2, 3), dtype=torch.bfloat16)
    array = readable(x)
    assert array.dtype is Dtype.BFLOAT16
    assert array.address == x.data_ptr()
    assert isinstance(new(array, (4,)).owner, torch.Tensor)
    assert readable(torch.zeros((2, 3)).T).copied
    assert isinstance(array.copy().owner, torch.Tensor)
    assert target(x, array, (2, 3)).owner.data_ptr() == x.data_ptr()


@pytest.mark.parametrize("dtype", [d for d in Dtype if d not in PAIRS])
@pytest.mark.torch
def test_tensors_of_every_type(dtype: Dtype) -> None:
    import torch

    array = readable(torch.ones((2, 3)).to(getattr(torch, dtype.label)).T)
    assert (array.dtype, array.copied) == (dtype, True)
    raw = torch.zeros(2, dtype={1: torch.uint8, 2: torch.uint16}.get(dtype.itemsize, torch.uint8))
    if dtype in SHORT_FLOATS:
        assert new(readable(raw, dtype.label), (2,)).dtype is dtype
        assert readable(raw, getattr(torch, dtype.label)).dtype is dtype


@pytest.mark.torch
def test_a_view_with_the_negative_bit_is_read_negated() -> None:
    import torch

    negated = torch.tensor([1 + 2j]).conj().imag
    assert negated.is_neg()
    assert readable(negated).owner.tolist() == [-2.0]
    assert not readable(negated).owner.is_neg()
    for view in (torch._neg_view(torch.ones(2)), torch.tensor([1 + 2j]).conj()):
        with pytest.raises(ValueError, match="out is a tensor that shows its memory negated or conjugated"):
            writable(view)


@pytest.mark.torch
def test_tensors_elsewhere_are_refused() -> None:
    import torch

    with pytest.raises(TypeError, match="expected a dense one on the CPU"):
        readable(torch.zeros(2, device="meta"))
    with pytest.raises(TypeError, match="sparse_coo tensor"):
        readable(torch.zeros(2).to_sparse())
    with pytest.raises(TypeError, match="float8_e8m0fnu is not supported"):
        readable(torch.zeros(2, dtype=torch.float8_e8m0fnu))
    with pytest.raises(ValueError, match="a tensor that is not contiguous"):
        writable(torch.zeros((2, 3)).T)


@pytest.mark.torch
def test_torch_itself() -> None:
    import torch

    from ringtree.runtime.launch.spawn import spawn

    def ranks(comm: Any) -> None:
        x = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
        y = comm.all_reduce(x)
        assert isinstance(y, torch.Tensor)
        assert y.tolist() == (x * comm.size).tolist()
        p = torch.nn.Parameter(torch.ones(4))
        comm.all_reduce(p, "avg", out=p)
        assert comm.all_gather(x[:, ::2]).shape == (comm.size, 2, 2)
        for label in ("bool", "uint16", "float16", "complex64", "float8_e4m3fn"):
            ones = torch.ones(3).to(getattr(torch, label))
            assert comm.all_reduce(ones).dtype == ones.dtype
            assert comm.all_reduce(ones).to(torch.complex64).real.tolist() == [1 if label == "bool" else comm.size] * 3
        out = np.empty((comm.size, 3), np.int64)
        assert comm.all_gather(torch.arange(3), out=out) is out

    spawn(ranks, 2, timeout_s=60)


class OfJax:
    """An array on the host whose type has what arrays on devices have, as JAX's arrays do."""

    shape, dtype = (3,), np.dtype(np.float32)

    @property
    def __cuda_array_interface__(self) -> object:
        raise AttributeError("only defined for GPU buffers")

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        return np.arange(3, dtype=np.float32)


def test_an_array_of_jax_on_the_host_is_read_there() -> None:
    seen = readable(OfJax(), on_device=True)
    assert seen.device is None and seen.owner.tolist() == [0, 1, 2]
