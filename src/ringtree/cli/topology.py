"""The topology that a command line names: links between so many ranks."""

from __future__ import annotations

from pathlib import Path

from ringtree.formats import chrome
from ringtree.machines.clusters import Cluster
from ringtree.machines.files.reading import find
from ringtree.machines.nics import usual_fabric
from ringtree.simulate.fit import fit
from ringtree.topology import Topology, load, parse
from ringtree.topology.fabrics import FABRICS
from ringtree.topology.text import SHAPES

MEASURED = "trace:"
"""Before the file of a measured trace, where a topology is expected."""


def topology(text: str, ranks: int) -> Topology:
    """A machine for so many ranks: a shape in a few words, one as JSON in a file, `trace:FILE`, what a trace's machine
    is like, or a machine by name or file, as many of it as it takes."""
    if text.startswith(MEASURED):
        return fit([chrome.read(text.removeprefix(MEASURED))], ranks)
    if text.partition(":")[0] in SHAPES:
        return parse(text, ranks)
    if text.endswith(".json") and not _is_machine(text):
        return load(text)
    return _machines(text, ranks)


def _is_machine(path: str) -> bool:
    """Whether a JSON file begins as a machine does; one of ranks and links has no such key."""
    if not Path(path).is_file():
        return False
    with open(path, "rb") as file:
        return b'"machine"' in file.read(64)


def _machines(text: str, ranks: int) -> Topology:
    """As many of a machine as make up the ranks, on the fabric its NICs are for."""
    try:
        machine = find(text)
    except ValueError as refusal:
        if Path(text).exists():
            raise
        raise ValueError(f"topology {text!r}: no shape of that name ({', '.join(SHAPES)}), and {refusal}") from None
    each = Cluster(machine).ranks
    if ranks % each and ranks > each:
        raise ValueError(f"topology {text}: {ranks} ranks on machines of {each}; expected a multiple")
    if ranks < each:
        return Cluster(machine.part(range(ranks))).topology()
    fabric = usual_fabric(machine)
    return Cluster(machine, ranks // each, FABRICS[fabric] if fabric else None).topology()
