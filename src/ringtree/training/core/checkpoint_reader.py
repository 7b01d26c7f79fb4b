"""Reads the files of a checkpoint as tensors and plain values: nothing in them is run.

torch's reader unpickles a checkpoint's table of contents, and objects that stand in it, as Python: whoever wrote them
chooses what is called. Here the table may name torch's own classes of such tables alone, and its entries be tensors,
which torch reads without running anything (weights_only).
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Collection
from enum import Enum
from pathlib import Path
from typing import IO, Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, StorageMeta

from ringtree.files.file_bytes import file_bytes, opened
from ringtree.files.json_values import shown
from ringtree.training.core.checkpoint_table import MOST_SHOWN, fault_of

CONTENTS = ".metadata"
MOST_BYTES = 1 << 28
CLASSES = {
    "torch.distributed.checkpoint.metadata": {
        "ChunkStorageMetadata",
        "Metadata",
        "MetadataIndex",
        "StorageMeta",
        "TensorProperties",
        "TensorStorageMetadata",
        "_MEM_FORMAT_ENCODING",
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "torch.serialization": {"_get_layout"},
    "torch": {"Size"},
    "collections": {"OrderedDict"},
    "pathlib": {"PosixPath"},
    "pathlib._local": {"PosixPath"},
}
"""The names that a table of contents may have, by their modules; and those of torch's types of elements."""


class TensorReader(dcp.FileSystemReader):
    """torch's reader of a checkpoint's folder, without what runs code. `files`: the names of its files. ValueError: for
    a checkpoint that holds something else than tensors."""

    def __init__(self, folder: Path, files: Collection[str]) -> None:
        super().__init__(folder)
        self._folder, self._files = folder, files

    def read_metadata(self, *_: Any, **__: Any) -> Metadata:
        """The table of contents."""
        file = self._folder / CONTENTS
        file_bytes(file, "a checkpoint's table of contents", MOST_BYTES)
        with opened(file, "a checkpoint's table of contents") as stream:
            try:
                metadata = _Tables(stream).load()
                self._check(file, metadata)
            except (
                EOFError,
                ArithmeticError,
                AttributeError,
                LookupError,
                RuntimeError,
                TypeError,
                MemoryError,
            ) as error:
                raise ValueError(f"{file}: no table of contents of a checkpoint ({error})") from None
            except (pickle.UnpicklingError, UnicodeDecodeError) as error:
                raise ValueError(f"{file}: {error}") from None
        metadata.storage_meta = metadata.storage_meta or StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata

    def _check(self, file: Path, metadata: Any) -> None:
        """ValueError, or what an attribute of another type raises: for a table that is none of tensors in `files`."""
        if not isinstance(metadata, Metadata):
            raise ValueError(f"{file}: no table of contents of a checkpoint")
        for key, entry in metadata.state_dict_metadata.items():
            if fault := fault_of(key, entry):
                raise ValueError(f"{file}: {fault}")
            for part in entry.chunks:
                if math.prod(part.sizes) and MetadataIndex(key, part.offsets) not in (metadata.storage_data or {}):
                    raise ValueError(f"{file}: {key[:MOST_SHOWN]!r} has a part that is in no file; expected all there")
        sizes = {name: (self._folder / name).stat().st_size for name in self._files}
        for where in (metadata.storage_data or {}).values():
            if where.relative_path not in sizes:
                raise ValueError(f"{file}: names {shown(where.relative_path)}; expected files of its own folder")
            if where.offset + where.length > sizes[where.relative_path]:
                raise ValueError(
                    f"{self._folder / where.relative_path}: cut short; expected tensors as {file} has them"
                )
            if where.offset < 0 or where.length < 0:
                raise ValueError(f"{file}: names {where.length} bytes at {where.offset}; expected a place in a file")


class _Tables(pickle.Unpickler):
    """An unpickler that makes what CLASSES names, and nothing else."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)

    def find_class(self, module: str, name: str) -> Any:
        """A class of CLASSES, or a type of elements. UnpicklingError: for another."""
        if name in CLASSES.get(module, ()) or (
            module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)
        ):
            return super().find_class(module, name)
        if (module, name) == ("builtins", "getattr"):
            return _member
        raise pickle.UnpicklingError(
            f"names {module[:60]}.{name[:60]}; expected a table of tensors, which runs nothing"
        )


def _member(of: Any, name: str) -> Any:
    """A member of an enumeration in CLASSES, which Python 3.11.0 to 3.11.2 pickle as an attribute of it."""
    if not (isinstance(of, type) and issubclass(of, Enum)):
        raise pickle.UnpicklingError(
            f"names builtins.getattr of {str(of)[:60]}; expected a table of tensors, which runs nothing"
        )
    return of[name]
