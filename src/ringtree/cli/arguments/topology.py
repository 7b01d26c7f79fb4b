"""The topology that a command line names."""

from __future__ import annotations

import re
from importlib import import_module

from ringtree.cli.options.files import MEASURED
from ringtree.files.file_bytes import first_bytes
from ringtree.formats import chrome
from ringtree.machines.machine import Machine
from ringtree.simulate.fit import fit
from ringtree.topology import Topology, load, parse
from ringtree.topology.text import SHAPES

CLUSTER = "ringtree.cli.arguments.cluster"
READING = "ringtree.machines.files.reading"
"""The modules that make clusters and find machines, loaded where one is named."""

_MOST_BYTES = 1 << 23
_DEVICES = re.compile(rb'\s*\{\s*"(devices|links|notes)"\s*:')
_MACHINE = re.compile(rb'"machine"\s*:')


def topology(text: str, ranks: int) -> Topology:
    """A topology for `ranks` ranks. `text`: a shape in a few words; a JSON file of one; `trace:FILE`, fitted to it; or
    a machine by name or file, as many of it as the ranks need."""
    if text.startswith(MEASURED):
        return fit([chrome.read(text.removeprefix(MEASURED))], ranks)
    if text.partition(":")[0] in SHAPES:
        return parse(text, ranks)
    if text.endswith(".json") and not _is_machine(text):
        return load(text)
    made: Topology = import_module(CLUSTER).of_machines(text, ranks)
    return made


def machine_of(text: str) -> Machine | None:
    """The machine of a topology's text; None for a shape, a topology's file and a trace."""
    other = text.startswith(MEASURED) or text.partition(":")[0] in SHAPES
    if other or (text.endswith(".json") and not _is_machine(text)):
        return None
    found: Machine = import_module(READING).find(text)
    return found


def _is_machine(path: str) -> bool:
    """Whether a JSON file has a machine's keys; one of ranks and links has none of them. Programs that sort keys put
    devices first."""
    start = first_bytes(path, _MOST_BYTES)
    return b'"machine"' in start[:64] or bool(_DEVICES.match(start) and _MACHINE.search(start))
