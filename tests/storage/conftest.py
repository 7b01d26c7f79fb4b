"""Ranks on several hosts, as tests/runtime/hosts has them."""

from __future__ import annotations

from tests.runtime.hosts.conftest import host_pools, lab, ports

__all__ = ["host_pools", "lab", "ports"]
