"""NUMA nodes in hwloc's XML: which of them have cores, and which one an object is at."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from ringtree.machines.files.xml_elements import Element, short

_WORD, _MOST_WORDS = 32, 64
_ENDLESS = "0xf...f"


def members(element: Element, name: str) -> int:
    """A set of cores or of nodes, a bit each. Its text is words of 32 bits, the highest first; an empty word is 0, and
    `0xf...f` before the others stands for all higher ones. At most 2048 bits count; 0 where there is no such attribute.
    ValueError, with the line: if the text is no set."""
    text = element.attributes.get(name, "")
    words = text.split(",")
    endless = words[0] == _ENDLESS
    if not all(re.fullmatch(r"(0x)?[0-9a-fA-F]{0,8}", word) for word in words[endless:]):
        element.refuse(f'{name}="{short(text)}"; expected a set such as 0x000000ff,,0x0, words of 32 bits')
    last = words[endless:][-_MOST_WORDS:]
    found = 0
    for word in last:
        found = found << _WORD | int(word.removeprefix("0x") or "0", 16)
    return found | (((1 << _WORD * (_MOST_WORDS - len(last))) - 1) << _WORD * len(last) if endless else 0)


def affinity(cores: int) -> str:
    """A set of cores as NCCL's files have it: words of 32 bits, without gaps."""
    words = [f"{cores >> at & 0xFFFFFFFF:08x}" for at in range(0, max(cores.bit_length(), 1), _WORD)]
    return ",".join(reversed(words))


def own_cores(nodes: Sequence[Element]) -> list[int]:
    """The cores of each node: a core is of the smallest node around it, of equal ones the first by number. hwloc gives
    a node of memory alone the cores that are near it; here it has none."""
    sets = [members(node, "cpuset") for node in nodes]
    order = sorted(range(len(nodes)), key=lambda n: (sets[n].bit_count(), nodes[n].whole("os_index", 0, 65535)))
    taken, own = 0, [0] * len(nodes)
    for n in order:
        own[n] = sets[n] & ~taken
        taken |= sets[n]
    return own


def reported_at(around: Sequence[Element]) -> list[int]:
    """The nodes of the nearest object around that names any, whether or not they are objects of the file; none where no
    object but the whole machine's does. A limited view may have them in the complete set alone."""
    for outer in reversed(around[1:]):
        if outer.attributes.get("type") == "NUMANode":
            return [outer.whole("os_index", 0, 65535)]
        if found := members(outer, "nodeset") or members(outer, "complete_nodeset"):
            return _numbers(found)
    return []


def hidden(machine: Element) -> list[int]:
    """The nodes of the machine that its view leaves out."""
    return _numbers(members(machine, "complete_nodeset") & ~members(machine, "nodeset"))


def _numbers(nodeset: int) -> list[int]:
    return [n for n in range(nodeset.bit_length()) if nodeset >> n & 1]


def nodes_at(around: Sequence[Element], numbers: Collection[int]) -> list[int]:
    """The nodes, of `numbers`, that an object is at: those of the nearest object around it that names any, all where
    none does."""
    for outer in reversed(around):
        if outer.attributes.get("type") == "NUMANode":
            found = [n for n in (outer.whole("os_index", 0, 65535),) if n in numbers]
        else:
            nodeset = members(outer, "nodeset")
            found = [n for n in numbers if nodeset >> n & 1]
        if found:
            return sorted(found)
    return sorted(numbers)
