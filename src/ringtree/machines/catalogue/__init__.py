"""Machines by name. An entry is data; the source of each figure is a note of the machine."""

from __future__ import annotations

from ringtree.machines.catalogue import aws, azure, gcp, nvidia, oci, others, pcie_servers
from ringtree.machines.catalogue.entry import CatalogueEntry, build
from ringtree.machines.machine import Machine

_ALL = (
    *nvidia.ENTRIES,
    *pcie_servers.ENTRIES,
    *others.ENTRIES,
    *aws.ENTRIES,
    *gcp.ENTRIES,
    *azure.ENTRIES,
    *oci.ENTRIES,
)
ENTRIES: dict[str, CatalogueEntry] = {e.name: e for e in _ALL}
NAMES: tuple[str, ...] = tuple(ENTRIES)


def machine(name: str) -> Machine:
    """The machine of that name. ValueError: if there is none."""
    if name not in ENTRIES:
        raise ValueError(f"no machine is named {name!r}: expected one of {', '.join(NAMES)}")
    return build(ENTRIES[name])
