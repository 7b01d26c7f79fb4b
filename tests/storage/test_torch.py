"""Tensors of torch's, beside safetensors' own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ringtree
import ringtree.storage
from ringtree.storage.elements import ELEMENTS
from tests.storage.files import caught, written

pytestmark = pytest.mark.torch
TYPES = ("bool", "uint8", "int16", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "float32", "int64")


def tensors() -> dict[str, Any]:
    import torch

    found = {f"of.{name}": torch.arange(24).reshape(4, 6).to(getattr(torch, name)) for name in TYPES}
    return found | {
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 3),
        "strided": torch.arange(12.0).reshape(3, 4).T,
    }


def same(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    import torch

    return found.keys() == expected.keys() and all(
        found[k].dtype == x.dtype
        and found[k].shape == x.shape
        and bool(
            (found[k].contiguous().reshape(-1).view(torch.uint8) == x.contiguous().reshape(-1).view(torch.uint8)).all()
        )
        for k, x in expected.items()
    )


def test_tensors_are_safetensors_own_both_ways(tmp_path: Path) -> None:
    def work(comm: Any) -> list[bool]:
        from safetensors.torch import load_file, save_file

        ringtree.storage.save(tensors(), tmp_path / "ours", comm)
        if comm.rank == 0:
            save_file({name: x.contiguous() for name, x in tensors().items()}, tmp_path / "theirs")
        comm.barrier()
        found = [same(load_file(tmp_path / "ours"), tensors())]
        for memory in ("private", "symmetric", "mapped"):
            loaded = ringtree.storage.load(tmp_path / "theirs", comm, framework="torch", memory=memory)
            found.append(same(loaded, tensors()))
            loaded["scalar"] += 1
            found.append(loaded["of.int64"].untyped_storage().nbytes() == 24 * 8)  # what torch.save would write
        return [*found, (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()]

    assert ringtree.spawn(work, 2, timeout_s=60) == [[True] * 8] * 2


@pytest.mark.parametrize("metadata", [None, {}, {"a": "b"}])
def test_all_types_in_one_file_are_in_safetensors_order(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    def work(comm: Any) -> bytes:
        import torch
        from safetensors.torch import save

        every = {e.name: torch.arange(4).to(getattr(torch, e.label)) for e in ELEMENTS.values()}
        ringtree.storage.save(every, tmp_path / "ours", comm, metadata=metadata)
        return bytes(save(every, metadata))

    [theirs] = ringtree.spawn(work, 1, timeout_s=60)
    assert (tmp_path / "ours").read_bytes() == theirs


def test_arrays_of_numpys_files_are_tensors(tmp_path: Path) -> None:
    x = np.asfortranarray(np.arange(24.0).reshape(2, 3, 4))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "swapped.npy", x.astype(">f4"))

    def work(comm: Any) -> list[str]:
        found = ringtree.storage.load(tmp_path / "x.npy", comm, framework="torch")
        assert (found.numpy() == x).all()
        load = ringtree.storage.load
        return [caught(lambda: load(tmp_path / "swapped.npy", comm, framework="torch"))]

    assert (
        ringtree.spawn(work, 2, timeout_s=60)
        == [["TypeError: torch has no element type >f4; expected framework='numpy'"]] * 2
    )


def test_a_device_that_is_not_there_is_refused_by_all_ranks(tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    path = written(tmp_path / "m", {"x": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}}, b"ab")

    def work(comm: Any) -> list[str]:
        load = ringtree.storage.load
        return [
            caught(lambda: load(path, comm, device="cuda", framework="torch")),
            caught(lambda: load(path, comm, device="cuda")),
            caught(lambda: load(path, comm, device="cuda", framework="torch", memory="mapped")),
        ]

    for none, *others in ringtree.spawn(work, 2, timeout_s=60):
        assert none.startswith("ValueError: device is 'cuda', which torch does not reach: ") and "\n" not in none
        assert others == ["ValueError: device is 'cuda'; expected framework='torch' and memory='private' with it"] * 2


def test_bytes_that_torch_holds_become_tensors(tmp_path: Path) -> None:
    """The last step of a load into a GPU's memory, on the CPU: also of tensors at odd places."""
    import torch

    from ringtree.files.file_bytes import opened
    from ringtree.storage.device import tensors_in
    from ringtree.storage.header import read_header

    entries = {
        "odd": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
        "x": {"dtype": "F64", "shape": [2, 3], "data_offsets": [3, 51]},
        "none": {"dtype": "F32", "shape": [0], "data_offsets": [51, 51]},
    }
    x = np.arange(6.0).reshape(2, 3)
    path = written(tmp_path / "m", entries, b"\1\2\3" + x.tobytes(), pad=False)
    with opened(path, "a file") as file:
        header = read_header(file, path)
    held = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
    found = tensors_in(held, header.entries, lambda offset: offset)
    assert found["odd"].tolist() == [1, 2, 3] and (found["x"].numpy() == x).all() and found["none"].shape == (0,)


def test_a_tensor_without_its_elements_here_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    def work(comm: Any) -> list[str]:
        import torch

        others = [torch.empty(3, device="meta"), torch.eye(3).to_sparse()]
        found = [caught(lambda x=x: ringtree.storage.save({"x": x}, tmp_path / "m", comm)) for x in others]
        return [*found, str(comm.all_reduce(np.ones(1))[0])]

    meta = "TypeError: tensor 'x' is on the device meta, without elements; expected a tensor that has them"
    sparse = "TypeError: tensor 'x' is of layout torch.sparse_coo; expected x.to_dense()"
    assert ringtree.spawn(work, 2, timeout_s=60) == [[meta, sparse, "2.0"]] * 2
    assert not list(tmp_path.iterdir())
