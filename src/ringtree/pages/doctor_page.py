"""Checked hosts and the links between them as a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ringtree.pages import assemble

MOST_HOSTS = 256


def doctor_page(result: Mapping[str, Any]) -> str:
    """`result`: as `ringtree doctor --json` prints it. ValueError where it is of too many hosts for a browser."""
    hosts = result["hosts"]
    if len(hosts) > MOST_HOSTS:
        raise ValueError(f"{len(hosts):,} hosts: too many for a page: expected at most {MOST_HOSTS}")
    more = f" and {len(hosts) - 1} more" if len(hosts) > 1 else ""
    return assemble(f"ringtree doctor: {hosts[0]['name']}{more}", ["doctor"], {"doctor": dict(result)})
