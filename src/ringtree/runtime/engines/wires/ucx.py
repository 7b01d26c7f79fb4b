"""The wire over UCX: each rank has a worker, and UCX finds the networks to use."""

from __future__ import annotations

import base64
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ringtree.runtime.engines.engine import native_module
from ringtree.runtime.engines.wires import Remote

if TYPE_CHECKING:
    from ringtree.runtime.bootstrap.protocols import NetworkBootstrap

LIBRARY = "RINGTREE_UCX_LIBRARY"
"""The variable with the path of a libucp."""
NAME = "libucp.so.0"
NETWORKS = ("UCX_TLS", "UCX_NET_DEVICES")
"""UCX's variables that restrict the networks."""


class UcxEnd:
    """A worker. Its address: the worker's, in base 64."""

    def __init__(self, bootstrap: NetworkBootstrap) -> None:
        self._worker = _worker()
        self.address = base64.b64encode(self._worker.address).decode()

    def unreached(self, name: str, remote: Remote, timeout_s: float) -> str:
        """Always "": UCX chooses the way when the first message goes."""
        return ""

    def network(self, hosts: list[int], group: int, members: Sequence[Remote]) -> Any:
        """Returns the native Network, which takes the worker over."""
        peers = [(base64.b64decode(m.address or ""), m.to_it, m.from_it) for m in members]
        return native_module().ucx(hosts, worker=self._worker, peers=peers)

    def close(self) -> None:
        """Ends the worker, where no group came of it."""
        del self._worker


def library() -> str:
    """The libucp to load: the one that the environment names, else the wheel's, else the system's."""
    if named := os.environ.get(LIBRARY):
        return named
    wheel = importlib.util.find_spec("libucx")
    for folder in (wheel and wheel.submodule_search_locations) or []:
        if (path := Path(folder) / "lib" / NAME).exists():
            return str(path)
    return NAME


def _worker() -> Any:
    path = library()
    try:
        return native_module().UcxWorker(path)
    except RuntimeError as error:
        raise RuntimeError(f"RINGTREE_WIRE=ucx: {error}{_remedy(str(error))}") from None


def _remedy(error: str) -> str:
    """A remedy for it: another library, or fewer of the settings that it names; "" where there is neither."""
    if "cannot be loaded" in error or "is needed" in error:
        return f"; pip install libucx-cu12, or name a libucp in {LIBRARY}"
    given = [f"{name}={os.environ[name]}" for name in NETWORKS if name in error and name in os.environ]
    return f"; without {' and '.join(given)} UCX chooses by itself" if given else ""
