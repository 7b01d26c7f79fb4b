"""The environment a rank was started in, and the bootstrap of ranks on one host or several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringtree import late

if TYPE_CHECKING:
    from ringtree.runtime.bootstrap.network.boards.file_board import FileBoard
    from ringtree.runtime.bootstrap.network.boards.mpi_board import MpiBoard
    from ringtree.runtime.bootstrap.network.boards.store_board import Store, StoreBoard
    from ringtree.runtime.bootstrap.network.contact import Board, GivenAddress
    from ringtree.runtime.bootstrap.network.hosts import MultiHostBootstrap

_NAMES = {
    "network.boards.file_board": ("FileBoard",),
    "network.boards.mpi_board": ("MpiBoard",),
    "network.boards.store_board": ("Store", "StoreBoard"),
    "network.contact": ("Board", "GivenAddress"),
    "network.hosts": ("MultiHostBootstrap",),
}

__all__ = ["Board", "FileBoard", "GivenAddress", "MpiBoard", "MultiHostBootstrap", "Store", "StoreBoard"]

__getattr__ = late.names(__name__, _NAMES)
