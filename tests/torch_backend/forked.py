"""Processes forked from a server that has loaded what ranks load: each of them would take a second for it."""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerContext

LOADED = "tests.torch_backend.loaded"
"""The module that the server imports before it forks."""


def context() -> ForkServerContext:
    """Of multiprocessing. The server starts with its first process, and is there for all tests of this process."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload([LOADED])
    return made
