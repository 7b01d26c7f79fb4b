"""SHA-256, by which ranks find that their schedules, programs and groups are the same ones."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hashlib import sha256
else:

    def _found() -> Any:
        """The function of Python's own module, which Python's random takes, too: hashlib loads OpenSSL, 3 ms of a
        rank's start and 4 MiB of its memory."""
        for module in ("_sha2", "_sha256"):  # as it is called from Python 3.12 on, and was before
            try:
                return import_module(module).sha256
            except ImportError:
                continue
        return import_module("hashlib").sha256

    sha256 = _found()

__all__ = ["sha256"]
