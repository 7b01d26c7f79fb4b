"""Worlds of ranks with a process group, kept across tests: those of the backend's tests."""

from tests.torch_backend.conftest import worlds  # noqa: F401
