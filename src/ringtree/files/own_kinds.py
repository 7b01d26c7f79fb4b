"""Files that ringtree itself writes, recognized by their contents: a reader of another kind names what it was given."""

from __future__ import annotations

from typing import Any

_JSON = (
    ({"traceEvents"}, "a trace, which `ringtree show` draws"),
    (
        {"form", "machine", "rows", "states"},
        "measured copies of devices, as `ringtree tune --device cuda --json` writes",
    ),
    ({"plan", "steps"}, "a record of training, as `ringtree train --json` writes"),
    ({"plan", "traffic"}, "a plan of training, as `ringtree train --plan --json` writes"),
    ({"collective", "cluster", "verdict"}, "an explanation, as `ringtree explain --json` writes"),
    ({"collective", "rows"}, "a plan of a collective, as `ringtree plan --json` writes"),
    ({"machine", "rows"}, "a bench record, as `ringtree bench --json` writes and `ringtree report` shows"),
    ({"ranks", "nodes", "tuned"}, "costs of this machine, as `ringtree tune` writes and init() reads"),
    ({"ranks", "nodes", "links"}, "a topology of ranks and links, which `ringtree simulate --topology` takes"),
    ({"machine", "devices"}, "a machine, which `ringtree topo show` draws"),
    ({"gpus", "collective"}, "a schedule for MSCCL++, which `ringtree show` shows"),
    ({"protocols"}, "a device's constants, as `ringtree simulate --fit` writes"),
    ({"hosts", "findings", "problems"}, "checks of hosts, as `ringtree doctor --json` prints"),
    ({"machines", "fabrics"}, "the catalogue, as `ringtree topo list --json` prints"),
    ({"now_ns", "groups"}, "groups of this machine, as `ringtree ps --json` writes"),
    ({"cases", "by_fault"}, "a record of random faults, as `make chaos` writes"),
)
"""The names that tell a kind from those below it, and the kind."""
_TEXT = (
    (b"schedule ", "a schedule as text, which `ringtree show` shows"),
    (b"<algo", "a schedule as MSCCL XML, which `ringtree show` shows"),
    (b"<graphs", "an NCCL graph file, which `ringtree topo show MACHINE --graph FILE` shows"),
    (b"<system", "a machine as NCCL's topology XML, which `ringtree topo show` draws"),
    (b"num_ranks ", "a GOAL schedule, which `ringtree simulate` plays"),
)
"""The beginnings of files that are no JSON."""


def kind_of_json(value: Any) -> str:
    """The kind of a file of that JSON, in words; empty where ringtree writes none such."""
    if not isinstance(value, dict):
        return ""
    return next((kind for names, kind in _JSON if names <= value.keys()), "")


def kind_of_text(data: bytes | str) -> str:
    """The kind of a file that begins so, in words; empty where it is JSON, or ringtree writes none such."""
    start = (data if isinstance(data, bytes) else data[:64].encode(errors="replace")).lstrip()[:64]
    return next((kind for beginning, kind in _TEXT if start.startswith(beginning)), "")
