"""Topologies as text: a shape in a few words, as a command line has it, and any topology as JSON.

    direct | switch | ring | torus:dims=4x4 | cluster:hosts=4,nics=2,latency=5us,bandwidth=25GB/s

After the colon the parameters of the shape's function, without the unit at their end: values carry units. A rank's own
costs are message=…, step=…, copy=… and reduce=….

As JSON, links go one way each, between nodes by name; a bandwidth that is left out is unlimited, as are costs:

    {"name": "pair", "ranks": 2, "nodes": ["rank0", "rank1"],
     "links": [{"source": "rank0", "target": "rank1", "latency_s": 1e-6, "bandwidth_Bps": 1e10}],
     "hosts": [0, 0], "message_s": 2e-7}

`"fifo_between_hosts": true` has links serve messages from host to host first come, first served (docs/simulate.md).
The runtime's `tuned` (runtime/tuned), where a file has it, is ignored here.
"""

from __future__ import annotations

import inspect
import json
import re
from array import array
from collections.abc import Callable
from dataclasses import replace
from math import inf, prod
from pathlib import Path
from typing import Any

import numpy as np

from ringtree.files.json_rows import JsonRows
from ringtree.files.replacing import replacing
from ringtree.topology import shapes
from ringtree.topology.graph import COSTS, Topology

SHAPES: dict[str, Callable[..., Topology]] = {
    name: getattr(shapes, name) for name in ("direct", "switch", "ring", "torus", "cluster")
}
FIFO = "fifo_between_hosts"
LARGEST_BYTES = 2**28
"""A file beyond this is refused unread: a million links are a half of it."""

_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PREFIXES = {"": 1.0, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_NUMBER = r"(\d+\.?\d*(?:e[+-]?\d+)?|\.\d+)\s*"


def parse(text: str, ranks: int) -> Topology:
    """The topology of that shape for `ranks` ranks. ValueError, in one line: if there is none."""
    name, _, rest = text.partition(":")
    if name not in SHAPES:
        raise ValueError(f"topology {text!r}: no shape {name!r}; expected one of {', '.join(SHAPES)}")
    known = _parameters(SHAPES[name])
    given: dict[str, Any] = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        parameter = next((p for p in known if key in (p, re.sub("_(s|Bps)$", "", p))), None)
        if parameter is None or not equals:
            words = ", ".join(re.sub("_(s|Bps)$", "", p) + "=" for p in known)
            raise ValueError(f"topology {text!r}: {item!r}: expected one of {words}")
        if parameter in given:
            raise ValueError(f"topology {text!r}: {key} is given twice")
        try:
            given[parameter] = _value(parameter, value)
        except ValueError as error:
            raise ValueError(f"topology {text!r}: {key}: {error}") from None
    try:
        return _shaped(name, ranks, given)
    except ValueError as error:
        raise ValueError(f"topology {text!r}: {error}") from None


def seconds(text: str) -> float:
    """The seconds of a text such as `5us`. ValueError: if the unit is none of s, ms, us, ns."""
    found = re.fullmatch(_NUMBER + "(s|ms|us|µs|ns)", text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no time; expected such as 5us (units: s, ms, us, ns)")
    return float(found[1]) * _SECONDS[found[2]]


def bytes_per_second(text: str) -> float:
    """The bytes a second of a text such as `25GB/s` or, in bits, `200Gb/s`; `inf`: no limit. ValueError: for others."""
    if text == "inf":
        return inf
    found = re.fullmatch(_NUMBER + "([KkMGT]?)(B|b)(?:/s|ps)", text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no bandwidth; expected such as 25GB/s, 200Gb/s (bits) or inf")
    return float(found[1]) * _PREFIXES[found[2]] / (8 if found[3] == "b" else 1)


def load(path: str | Path) -> Topology:
    """The topology in a JSON file. ValueError, in one line with file and element: if it is none."""
    rows = JsonRows(path, "links", "a topology", LARGEST_BYTES)
    links = None
    for at, elements in rows:
        links = links or _Links()
        links.add(elements, at)
    try:
        return _built(rows.rest, links)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def save(topology: Topology, path: str | Path) -> None:
    """Writes the topology as JSON, which `load` reads. OSError: if it cannot be written."""
    data = dumps(topology).encode()
    with replacing(Path(path)) as file:
        file.write(data)


def dumps(topology: Topology, tuned: dict[str, Any] | None = None) -> str:
    """The topology as JSON, a link a line, with `tuned`, which `load` ignores."""
    t = topology
    columns = (t.source.tolist(), t.target.tolist(), t.latency_s.tolist(), t.bandwidth_Bps.tolist())
    links = []
    for source, target, latency_s, bandwidth_Bps in zip(*columns, strict=True):
        link = {"source": t.nodes[source], "target": t.nodes[target], "latency_s": latency_s}
        links.append(link if bandwidth_Bps == inf else {**link, "bandwidth_Bps": bandwidth_Bps})
    costs = {key: getattr(t, key) for key, default in COSTS.items() if getattr(t, key) != default}
    fifo = {FIFO: True} if t.fifo_between_hosts else {}
    head = {"name": t.name, "ranks": t.ranks, "hosts": t.hosts.tolist(), **fifo, **costs, "nodes": list(t.nodes)}
    lines = ",\n  ".join(json.dumps(link) for link in links)
    beside = "" if tuned is None else f'"tuned": {json.dumps(tuned, indent=1)}, '
    return f'{json.dumps(head)[:-1]}, {beside}"links": [\n  {lines}\n]}}\n'


def _parameters(shape: Callable[..., Topology]) -> list[str]:
    """The parameters allowed after the colon, without the number of ranks where it is given otherwise."""
    named = [p.name for p in inspect.signature(shape).parameters.values() if p.kind is not p.VAR_KEYWORD]
    return [p for p in named if p not in ("ranks", "ranks_per_host")] + list(COSTS)


def _value(parameter: str, text: str) -> Any:
    if parameter.endswith("_s"):
        return seconds(text)
    if parameter.endswith("_Bps"):
        return bytes_per_second(text)
    expected = r"\d{1,7}(x\d{1,7})*" if parameter == "dims" else r"\d{1,7}"
    if not re.fullmatch(expected, text):
        raise ValueError(f"{text!r}; expected {'such as 4x4' if parameter == 'dims' else 'a whole number'}")
    return tuple(map(int, text.split("x"))) if parameter == "dims" else int(text)


def _shaped(name: str, ranks: int, given: dict[str, Any]) -> Topology:
    if name == "torus":
        dims = given.pop("dims", ())
        if prod(dims) != ranks or not dims:
            raise ValueError(
                f"expected dims= whose product is {ranks}, the number of ranks, such as dims=2x{ranks // 2}"
            )
        return shapes.torus(*dims, **given)
    if name == "cluster":
        hosts = given.pop("hosts", 0)
        if hosts < 1 or ranks % hosts:
            raise ValueError(f"expected hosts= that divides {ranks}, the number of ranks")
        return shapes.cluster(hosts, ranks // hosts, **given)
    return SHAPES[name](ranks, **given)


class _Links:
    """The links of a file, as columns; each is checked as it comes. The nodes' names may stand behind them."""

    def __init__(self) -> None:
        self.mistake = ""
        self._seen: dict[str, int] = {}
        self._ends = {end: array("q") for end in ("source", "target")}
        self._figures = {key: array("d") for key in ("latency_s", "bandwidth_Bps")}

    def add(self, links: list[Any], at: int) -> None:
        """Takes up links, the first of which is number `at`; after a mistake, none."""
        try:
            for n, link in enumerate([] if self.mistake else links, at):
                self._add(link, f"links[{n}]")
        except ValueError as error:
            self.mistake = str(error)

    def columns(self, nodes: list[str]) -> dict[str, Any]:
        """The columns, with the numbers that the names have among the nodes."""
        if self.mistake:
            raise ValueError(self.mistake)
        number = {name: n for n, name in enumerate(nodes)}
        numbers = np.array([number.get(name, -1) for name in self._seen], np.int32)
        ends = {end: numbers[np.array(seen, np.int64)] for end, seen in self._ends.items()}
        for n in np.flatnonzero((ends["source"] < 0) | (ends["target"] < 0))[:1].tolist():
            end = "source" if ends["source"][n] < 0 else "target"
            name = list(self._seen)[self._ends[end][n]]
            raise ValueError(f"links[{n}].{end} is {_short(name)}; expected the name of a node")
        return ends | {key: np.array(values) for key, values in self._figures.items()}

    def _add(self, item: object, where: str) -> None:
        link = _object(item, where, {"source", "target", "latency_s"}, {"bandwidth_Bps"})
        for end, seen in self._ends.items():
            if not isinstance(name := link[end], str):
                raise ValueError(f"{where}.{end} is {_short(name)}; expected the name of a node")
            seen.append(self._seen.setdefault(name, len(self._seen)))
        self._figures["latency_s"].append(_number(link["latency_s"], f"{where}.latency_s"))
        self._figures["bandwidth_Bps"].append(_number(link.get("bandwidth_Bps", inf), f"{where}.bandwidth_Bps"))


def _built(data: object, links: _Links | None) -> Topology:
    """The topology from a file's JSON, whose links were read before. Every element is checked before it is used."""
    needed = {"name", "ranks", "nodes"} | ({"links"} if links is None else set())
    head = _object(data, "the topology", needed, {"hosts", "tuned", FIFO, *COSTS})
    if not isinstance(head["name"], str) or not head["name"].isprintable():
        raise ValueError(f"name is {_short(head['name'])}; expected a text that can be printed")
    ranks = _whole(head["ranks"], "ranks")
    nodes = [*map(str, head["nodes"])] if isinstance(head["nodes"], list) else []
    if not nodes or nodes != head["nodes"] or not all(map(str.isprintable, nodes)):
        raise ValueError(
            f"nodes is {_short(head['nodes'])}; expected a list of names that can be printed, the ranks' first"
        )
    if links is None:
        raise ValueError(f"links is {_short(head['links'])}; expected a list")
    columns = links.columns(nodes)
    if "hosts" in head:
        if not isinstance(head["hosts"], list) or len(head["hosts"]) != ranks:
            raise ValueError(f"hosts is {_short(head['hosts'])}; expected a list of {ranks} numbers, each rank's host")
        columns["hosts"] = [_whole(h, f"hosts[{r}]") for r, h in enumerate(head["hosts"])]
    costs = {key: _number(head[key], key) for key in COSTS if key in head}
    fifo = head.get(FIFO, False)
    if not isinstance(fifo, bool):
        raise ValueError(f"{FIFO} is {_short(fifo)}; expected true or false")
    built = Topology.of(head["name"], ranks, tuple(nodes), **columns, **costs)
    return replace(built, fifo_between_hosts=fifo)


def _object(value: object, where: str, needed: set[str], known: set[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where} is {_short(value)}; expected an object")
    for key in sorted(needed - set(value)):
        raise ValueError(f"{where} lacks {key!r}")
    for key in sorted(set(value) - needed - known):
        raise ValueError(f"{where} has {_short(key)}; expected only {', '.join(sorted(needed | known))}")
    return value


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= inf:
        raise ValueError(f"{where} is {_short(value)}; expected a number")
    return float(value) if abs(value) < 1e300 else inf if value > 0 else -inf


def _whole(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise ValueError(f"{where} is {_short(value)}; expected a whole number")
    return value


def _short(value: object) -> str:
    try:
        text = json.dumps(value)
    except RecursionError:
        return "nested deeply"
    return text if len(text) <= 40 else text[:40] + "…"
