"""Ranks on hosts as a command line names them: ranks of each host, a link's rate, a latency."""

from __future__ import annotations

import re

from ringtree.topology.text import seconds

MOST_RANKS = 4096
"""The most ranks of a group."""
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(bit|b/s|bps)", re.IGNORECASE)
_PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}


def host_of_ranks(text: str) -> tuple[int, ...]:
    """The host of each rank from the ranks of each host, in order of ranks: `2,2,2`. ValueError for another text."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise ValueError(f"--hosts {text!r}: expected the number of ranks on each host, such as 2,2,2")
    each = [int(part) for part in parts]
    if len(each) < 2 or sum(each) > MOST_RANKS:
        found = f"{sum(each)} ranks on {len(each)} host{'s' * (len(each) > 1)}"
        raise ValueError(f"--hosts {text[:40]}: {found}; expected 2 hosts at least and {MOST_RANKS} ranks at most")
    return tuple(host for host, ranks in enumerate(each) for _ in range(ranks))


def link_rate(text: str) -> float:
    """Bytes a second of a link's rate: `2gbit`, `2Gbit/s`, `2Gb/s` in bits, `250MB/s` in bytes. ValueError for
    others."""
    found = _RATE.fullmatch(text.strip().removesuffix("/s") if text.lower().endswith("bit/s") else text.strip())
    if found is None or not float(found[1]):
        raise ValueError(f"--rate {text!r}: expected such as 2gbit or 2Gb/s (bits), or 250MB/s (bytes)")
    in_bytes = found[3] in ("B/s", "Bps")
    return float(found[1]) * _PREFIXES[found[2].lower()] / (1 if in_bytes else 8)


def latency(text: str, option: str = "--latency") -> float:
    """Seconds: `60us`, `1ms`. ValueError for another text, and for none."""
    try:
        found = seconds(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= 10:
        raise ValueError(f"{option} {text!r}: expected more than 0, at most 10s, such as 60us or 1ms")
    return found
