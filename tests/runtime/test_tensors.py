"""Tensors as repeated calls read them, however odd: always what torch itself shows of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ringtree.runtime.arrays import readable, writable
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.launch.spawn import spawn
from tests.way_in import passed

pytestmark = pytest.mark.torch

TYPES = ("float32", "float64", "float16", "bfloat16", "float8_e5m2", "int64", "int8", "uint8", "bool", "complex64")


@cache
def classes() -> dict[str, type[Any]]:
    """Classes of tensors: torch's own, one that derives from it, and one whose objects do not say where they keep
    their tensor, as if torch laid them out in another way."""
    import torch

    class Derived(torch.Tensor):
        pass

    class Secretive(torch.Tensor):
        _cdata = property(lambda self: 0)

    return {"own": torch.Tensor, "parameter": torch.nn.Parameter, "derived": Derived, "secretive": Secretive}


def steps() -> dict[str, Callable[[Any], Any]]:
    """What makes a tensor odd."""
    import torch

    return {
        "negated": torch._neg_view,
        "conjugated": lambda x: x.conj(),
        "imaginary": lambda x: x.conj().imag,
        "transposed": lambda x: x.transpose(0, -1),
        "every second": lambda x: x[::2],
        "all but the first": lambda x: x[1:],
        "one more axis": lambda x: x.unsqueeze(-1),
        "expanded": lambda x: x.unsqueeze(0).expand(2, *x.shape),
        "copied": lambda x: x.clone(),
        "differentiated": lambda x: x.detach().requires_grad_(),
        "of autograd": lambda x: x.detach().requires_grad_() * 1,
        "copied on write": torch._lazy_clone,
    }


def made(kind: str, dtype: str, shape: list[int], views: list[str], first: int) -> Any:
    """The tensor that a draw means; steps that torch refuses are left out."""
    import torch

    x = (torch.arange(max(1, torch.Size(shape).numel())) + first)[: torch.Size(shape).numel()]
    x = x.reshape(shape).to(torch.complex64 if dtype == "complex64" else torch.float32)
    x = (x * (1 + 2j) if dtype == "complex64" else x).to(getattr(torch, dtype))
    for view in views:
        try:
            odd = steps()[view](x)
            odd.resolve_neg()
            x = odd
        except (RuntimeError, IndexError):
            continue
    of = classes()[kind]
    if kind == "parameter":
        return torch.nn.Parameter(x.detach(), requires_grad=x.is_floating_point())
    return x if kind == "own" else x.detach().as_subclass(of)


def shown(x: Any) -> tuple[Any, ...]:
    """Type, shape and bits of a tensor as torch shows it."""
    import torch

    x = x.detach().as_subclass(torch.Tensor).resolve_conj().resolve_neg()
    x = x.clone(memory_format=torch.contiguous_format)
    return x.dtype, tuple(x.shape), x.reshape(-1).view(torch.uint8).tolist() if x.numel() else []


def reads_alike(comm: Communicator) -> None:
    names = list(steps())
    views = st.lists(st.sampled_from(names), max_size=3)
    kinds = st.sampled_from(("own", "own", "parameter", "derived", "secretive"))

    @example("int64", [3], "own", "own", ["negated"], ["negated"])
    @example("complex64", [3], "own", "own", ["conjugated"], ["conjugated"])
    @example("float32", [2, 3], "own", "own", ["transposed"], [])
    @example("float32", [3], "secretive", "secretive", ["negated"], ["negated"])
    @given(st.sampled_from(TYPES), st.lists(st.integers(0, 3), max_size=3), kinds, kinds, views, views)
    def check(dtype: str, shape: list[int], kind: str, other: str, seen: list[str], written: list[str]) -> None:
        x = made(kind, dtype, shape, seen, 1)
        expected = shown(x)
        plain = x.detach().resolve_conj().resolve_neg().contiguous().clone()
        for call in (comm.all_reduce, comm.all_to_all if x.dim() else comm.all_reduce):
            call(plain), call(plain, out=plain.clone())  # a call like the next ones is known
            for _ in range(2):
                assert shown(call(x)) == expected
            out = made(other, dtype, shape, written, 7)
            before = shown(out)
            fits = out.dtype is x.dtype and out.numel() == x.numel()
            if not fits or not out.is_contiguous() or out.is_neg() or out.is_conj():
                with pytest.raises((TypeError, ValueError), match=r"^out (is|has)"):
                    call(x, out=out)
                assert shown(out) == before
                continue
            assert call(x, out=out) is out
            assert shown(out)[2] == expected[2]
            assert shown(x) == expected

    check()


def test_an_odd_tensor_is_read_as_torch_shows_it() -> None:
    spawn(reads_alike, 1, timeout_s=120)


def without_memory() -> dict[str, Any]:
    """Tensors of three float32 elements that have no memory to read them from, or none in order."""
    import torch

    class Dispatching(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
            raise NotImplementedError

    x = torch.ones(3)
    wrapper = partial(torch.Tensor._make_wrapper_subclass, Dispatching, (3,), dtype=torch.float32)
    return {
        "elsewhere": x.to("meta"),
        "sparse": x.to_sparse(),
        "by rows": torch.ones(1, 3).to_sparse_csr(),
        "of another library": x.to_mkldnn(),
        "nested": torch.nested.nested_tensor([x]),
        "zeros": torch._efficientzerotensor(3),
        "functional": torch._to_functional_tensor(x),
        "wrapper": wrapper(),
        "wrapper with sizes": wrapper(dispatch_sizes_strides_policy="sizes"),
        "released": released(),
        "complex32": torch.ones(3, dtype=torch.complex32),
    }


def released() -> Any:
    """A tensor whose memory was taken away, as sharded training does."""
    import torch

    x = torch.ones(3)
    x.untyped_storage().resize_(0)
    return x


def outcome(act: Callable[[], Any]) -> tuple[type[BaseException], str] | None:
    """The error of a call."""
    try:
        act()
    except Exception as error:  # noqa: BLE001  # whatever it is, it is to be the same
        return type(error), str(error)
    return None


def is_refused_alike(comm: Communicator) -> None:
    import torch

    x = torch.ones(3)
    for name, odd in without_memory().items():
        expected = outcome(lambda odd=odd: readable(odd)), outcome(lambda odd=odd: writable(odd))
        for _ in range(3):
            comm.all_reduce(x), comm.all_reduce(x, out=x)
            assert (
                outcome(lambda odd=odd: comm.all_reduce(odd)),
                outcome(lambda odd=odd: comm.all_reduce(x, out=odd)),
            ) == expected, name

    def in_a_batch(row: Any) -> Any:
        for _ in range(3):
            assert outcome(lambda: comm.all_reduce(row)) == outcome(lambda: readable(row)) != None  # noqa: E711
        return row

    torch.func.vmap(in_a_batch)(x.reshape(1, 3))


def test_what_is_no_plain_tensor_is_refused_as_ever() -> None:
    spawn(is_refused_alike, 1, timeout_s=120)


def asked(act: Callable[[], Any]) -> set[str]:
    """The functions of torch's that a call asks through Python's interface."""
    from torch.overrides import TorchFunctionMode

    found = set()

    class Noting(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
            found.add(function.__name__)
            return function(*given, **(named or {}))

    with Noting():
        act()
    return found


def is_read_natively(comm: Communicator) -> None:
    import torch

    for dtype in TYPES:
        x = torch.ones(2, 3).to(getattr(torch, dtype))
        questions = {"is_neg", "is_conj"} if dtype == "complex64" else {"is_neg"}
        for name, of in classes().items():
            odd = of(x, requires_grad=False) if name == "parameter" else x.clone().as_subclass(of)
            for act in (
                lambda odd=odd: comm.all_reduce(odd, out=odd),
                lambda x=x, odd=odd: comm.all_reduce(x, out=odd),
            ):
                assert passed(act) == [], (dtype, name)
                assert asked(act) == (questions if name == "secretive" else set()), (dtype, name)
        assert asked(lambda x=x: comm.all_reduce(x)) == {"empty_like"}


def test_tensors_of_every_class_are_read_natively() -> None:
    spawn(is_read_natively, 1, timeout_s=120)
