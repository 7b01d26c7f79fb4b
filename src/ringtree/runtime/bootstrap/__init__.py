"""The environment a rank was started in, and the bootstrap of ranks on one host or several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringtree import late

if TYPE_CHECKING:
    from ringtree.runtime.bootstrap.boards.file_board import FileBoard
    from ringtree.runtime.bootstrap.boards.mpi_board import MpiBoard
    from ringtree.runtime.bootstrap.boards.store_board import Store, StoreBoard
    from ringtree.runtime.bootstrap.contact import Board, GivenAddress
    from ringtree.runtime.bootstrap.hosts import MultiHostBootstrap

_NAMES = {
    "boards.file_board": ("FileBoard",),
    "boards.mpi_board": ("MpiBoard",),
    "boards.store_board": ("Store", "StoreBoard"),
    "contact": ("Board", "GivenAddress"),
    "hosts": ("MultiHostBootstrap",),
}

__all__ = ["Board", "FileBoard", "GivenAddress", "MpiBoard", "MultiHostBootstrap", "Store", "StoreBoard"]

__getattr__ = late.names(__name__, _NAMES)
