"""Messages between two ranks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.torch_backend.conftest import Worlds

DTYPES = (
    ("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16")
    + ("float32", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2")
    + ("float8_e4m3fnuz", "float8_e5m2fnuz")  # types that the engine does not know
)
SHAPES: dict[str, Any] = {
    "none": lambda x: x[:0],
    "one": lambda x: x[0, 0],
    "whole": lambda x: x,
    "columns": lambda x: x[:, ::2],
    "transposed": lambda x: x.t(),
    "rows": lambda x: x[2:5],
}


def _ring(shape: str) -> list[str]:
    """Every rank sends to the next one, and says for which types another than the expected came."""
    import torch
    import torch.distributed as dist

    rank, n = dist.get_rank(), dist.get_world_size()
    wrong = []
    for name in DTYPES:
        dtype = getattr(torch, name)

        def filled(r: int, dtype: Any = dtype) -> Any:
            bits = (torch.arange(48 * dtype.itemsize) * (r + 3) % 64).to(torch.uint8)
            bits = bits % 2 if dtype is torch.bool else bits
            return bits.view(dtype).reshape(6, 8)

        x, whole = filled(rank), torch.zeros(6, 8, dtype=torch.uint8).to(dtype)
        y = SHAPES[shape](whole)
        sent = dist.isend(SHAPES[shape](x), (rank + 1) % n, tag=7)
        came = dist.irecv(y, (rank - 1) % n, tag=7)
        came.wait()
        sent.wait()
        expected = torch.zeros(6, 8, dtype=torch.uint8).to(dtype)
        SHAPES[shape](expected).copy_(SHAPES[shape](filled((rank - 1) % n)))
        if bytes(whole.contiguous().view(torch.uint8).numpy()) != bytes(expected.view(torch.uint8).numpy()):
            wrong.append(name)
    return wrong


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [2, 3])
def test_every_type_and_shape(worlds: Worlds, n: int, shape: str) -> None:
    assert worlds(n).run(_ring, shape) == [[]] * n
