"""Files of one array: numpy's .npy, and raw ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ringtree
import ringtree.storage
from tests.storage.files import caught


@pytest.mark.parametrize("names", [[], [""], lambda name: name.startswith("w")])
def test_names_of_an_array_are_refused(tmp_path: Path, names: Any) -> None:
    path, x = tmp_path / "x.npy", np.arange(6.0)
    np.save(path, x)

    def work(comm: Any) -> list[str]:
        load = ringtree.storage.load
        refused = [
            caught(lambda: load(path, comm, names=names)),
            caught(lambda: load(path, comm, names=names, dtype="uint8")),
        ]
        assert (load(path, comm) == x).all()
        return refused

    refused = f"ValueError: {path}: names= of a file of one array, which has no name; expected none, or shard= for rows"
    assert ringtree.spawn(work, 2, timeout_s=60) == [[refused] * 2] * 2


def test_metadata_beside_an_array_is_refused(tmp_path: Path) -> None:
    path, x = tmp_path / "x.npy", np.arange(6.0)

    def work(comm: Any) -> str:
        refused = caught(lambda: ringtree.storage.save(x, path, comm, metadata={"author": "me"}))
        assert not path.exists()
        ringtree.storage.save(x, path, comm, metadata={})
        return refused

    refused = f"ValueError: {path}: metadata= beside an array, whose file has no room for it; expected a dict"
    assert ringtree.spawn(work, 2, timeout_s=60) == [refused] * 2
