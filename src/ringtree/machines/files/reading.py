"""Machines from files of any form that is known, and by name. A file's content decides its form, not its name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from ringtree.files.file_bytes import file_bytes
from ringtree.files.json_values import json_value
from ringtree.files.own_kinds import kind_of_json, kind_of_text
from ringtree.machines import catalogue
from ringtree.machines.files import hwloc_xml, machine_json, nccl_xml, nvidia_smi
from ringtree.machines.files.xml_elements import MOST_BYTES, elements
from ringtree.machines.machine import Machine

EXPECTED = "a machine: topology XML of NCCL, RCCL or hwloc, the output of `nvidia-smi topo -m`, or our JSON"


def read(path: str | Path, assume: Mapping[str, str] | None = None) -> Machine:
    """The machine of a file. ValueError, in one line with file and element: if it is none. `assume` gives facts that a
    file lacks, as for `nccl_xml.read`: {"gpu": "h100-sxm", "nic": "400Gb/s"}."""
    data = file_bytes(path, EXPECTED, MOST_BYTES)
    file, start = str(path), data.lstrip()[:1]
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") and not data.decode("utf-16", "replace").lstrip().startswith("<"):
        raise ValueError(f"{file}: is UTF-16, as PowerShell's > writes it; expected UTF-8 (Set-Content -Encoding utf8)")
    if start == b"<" or data.startswith((b"\xff\xfe", b"\xfe\xff")):
        root = elements(data, file)
        if root.tag == "system":
            return nccl_xml.machine_of(root, assume)
        if root.tag == "topology":
            return hwloc_xml.machine_of(root, assume)
        if root.tag == "graphs":
            raise ValueError(f"{file}: an NCCL graph file, rings and trees of a machine; expected {EXPECTED}; "
                             "`ringtree topo show MACHINE --graph FILE` shows it")  # fmt: skip
        if kind := kind_of_text(data):
            raise ValueError(f"{file}: {kind}; expected {EXPECTED}")
        raise ValueError(f"{root.where}: expected {EXPECTED}")
    if start in (b"{", b"["):
        found = _json(data, file)
        if assume:
            raise ValueError(f"{file}: a machine as JSON, which is complete; expected no assumptions")
        return found
    if nvidia_smi.looks_like(data):
        return nvidia_smi.parse(data, file, assume)
    raise ValueError(f"{file}: {kind_of_text(data) or 'of no form that is known'}; expected {EXPECTED}")


def find(name: str | Path, assume: Mapping[str, str] | None = None) -> Machine:
    """The machine of the catalogue by that name, else of the file there. ValueError, with the nearest names: if there
    is neither."""
    text = str(name)
    if text in catalogue.NAMES:
        if assume:
            raise ValueError(f"{text} is a machine of the catalogue, which is complete; expected no assumptions")
        return catalogue.machine(text)
    if text and (os.path.exists(text) or re.search(r"[/\\]|\.(xml|json|txt)$", text)):
        return read(name, assume)
    near = get_close_matches(text.lower(), catalogue.NAMES, n=3, cutoff=0.5)
    hint = f"nearest are {', '.join(near)}" if near else f"known are {', '.join(catalogue.NAMES)}"
    raise ValueError(f"{text!r} is neither a machine's name nor a file: {hint}")


def _json(data: bytes, file: str) -> Machine:
    """A machine or topology of ringtree's own JSON, recognized by a machine's keys."""
    found = json_value(data, file, EXPECTED)
    if isinstance(found, dict) and "machine" not in found and {"ranks", "nodes"} <= set(found):
        raise ValueError(
            f"{file}: a topology of ranks and links, as simulate and price take it; expected {EXPECTED}; "
            "ringtree.topology.load reads it"
        )
    if (kind := kind_of_json(found)) and not {"machine", "devices"} <= found.keys():
        raise ValueError(f"{file}: {kind}; expected {EXPECTED}")
    return machine_json.built(found, file)
