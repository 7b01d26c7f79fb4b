"""The contents of the file, and the forms in which cost parameters travel."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ringtree.files.file_bytes import file_bytes
from ringtree.files.json_values import json_value
from ringtree.price.hosts import WIRE_MESSAGE_S, NetworkCost
from ringtree.price.memory.corrections import corrections_from
from ringtree.price.memory.parameters import BUILT_IN, NODE_COSTS, CostParameters
from ringtree.runtime.processor import cores, cpu

VERSION = 1
"""The version of the parameters' form: parameters of another one are not read."""
LARGEST_BYTES = 1 << 24
EXPECTED = "what `ringtree tune` writes"


@dataclass(frozen=True, slots=True)
class Tuned:
    """The file's contents: the parameters, the network to other hosts where it was measured, and the date, version,
    machine and numbers of ranks of the measurement. `host_of`: the host of each rank that measured the network."""

    parameters: CostParameters
    date: str
    ringtree: str
    ranks: tuple[int, ...]
    cpu: str
    cores: int
    network: NetworkCost | None = None
    host_of: tuple[int, ...] = ()


def read(file: str | Path, *, anywhere: bool = False) -> Tuned:
    """Reads the file; ValueError, in one line, where it is malformed, or (unless `anywhere`) of another machine."""
    path = Path(file)
    data = json_value(file_bytes(path, EXPECTED, LARGEST_BYTES), str(path), EXPECTED)
    tuned = data.get("tuned") if isinstance(data, dict) else None
    if not isinstance(tuned, dict):
        raise ValueError(f"{path}: no cost parameters of a machine; expected what `ringtree tune` writes")
    if tuned.get("version") != VERSION:
        raise ValueError(f"{path}: version {tuned.get('version')!r} of the cost parameters; expected {VERSION}")
    machine, here = tuned.get("machine"), this_machine()
    if machine != here and not anywhere:
        raise ValueError(f"{path}: of another machine, {_words(machine)}; this is {_words(here)}")
    try:
        return Tuned(
            parameters_from(tuned["figures"], f"parameters measured on {_line(tuned['date'])}"),
            _line(tuned["date"]),
            _line(tuned["ringtree"]),
            _ranks(tuned["ranks"]),
            _line(_object(tuned["machine"], "machine")["cpu"]),
            max(_whole(tuned["machine"]["cores"], "machine cores"), 1),
            _network(tuned.get("network")),
            _host_of(tuned.get("network")),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        why = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path}: {' '.join(why.split())}; expected what `ringtree tune` writes") from None


def is_tuned(path: Path) -> bool:
    """Whether the file is one that `ringtree tune` writes, by a look at its contents."""
    try:
        return re.search(rb'"tuned"\s*:\s*\{', file_bytes(path, EXPECTED, LARGEST_BYTES)) is not None
    except ValueError:
        return False


def this_machine() -> dict[str, object]:
    """The CPU model and the number of cores, which a tuned file is checked against."""
    return {"cpu": cpu(), "cores": cores()}


def as_json(parameters: CostParameters) -> dict[str, Any]:
    """All fields except the source, and the corrections where there are some."""
    found = {name: value for name, value in asdict(parameters).items() if name not in ("source", "corrections")}
    corrections = [[*c[:4], float(f"{c.factor:.4g}")] for c in parameters.corrections.all]
    return found | ({"corrections": corrections} if corrections else {})


def parameters_from(written: Mapping[str, Any], source: str) -> CostParameters:
    """The parameters that `as_json` wrote. ValueError, TypeError or KeyError for anything else."""
    known = [f.name for f in fields(CostParameters) if f.name not in ("source", "corrections")]
    written = _object(written, "figures")
    lacking = ("attach_Bps", "oversubscribed_fetch_Bps", *NODE_COSTS)  # in earlier files
    written = {name: getattr(BUILT_IN, name) for name in lacking} | dict(written)
    values: dict[str, Any] = {name: _figure(written[name], name) for name in known}
    corrections = corrections_from(written.get("corrections", ()))
    return CostParameters(**values, source=source, corrections=corrections)


def network_as_json(network: NetworkCost) -> dict[str, float]:
    """All fields except the source."""
    return {name: value for name, value in asdict(network).items() if name != "source"}


def network_from(written: Mapping[str, Any], source: str) -> NetworkCost:
    """The network that `network_as_json` wrote. ValueError, TypeError or KeyError for anything else."""
    message_s = _number(written.get("message_s", WIRE_MESSAGE_S), "network message_s")  # earlier files lack it
    latency_s, bandwidth_Bps = (_number(written[name], f"network {name}") for name in ("latency_s", "bandwidth_Bps"))
    return NetworkCost(latency_s, bandwidth_Bps, source, message_s)


def _figure(value: object, name: str) -> float | tuple[float, ...]:
    """A cost parameter: one number, or one for each of several sizes, as the built-in one is. ValueError for another
    value."""
    if not isinstance(getattr(BUILT_IN, name), tuple):
        return _number(value, name, exact=True)
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{name} is {_shown(value)}; expected a list of numbers")
    return tuple(_number(each, name, exact=True) for each in value)


def _number(value: object, name: str, *, exact: bool = False) -> float:
    """A number; `exact`: as it is, a whole one too."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise ValueError(f"{name} is {_shown(value)}; expected a number")
    return value if exact else float(value)


def _whole(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name} is {_shown(value)}; expected a whole number")
    return value


def _ranks(value: object) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise ValueError(f"ranks is {_shown(value)}; expected a list of numbers of ranks")
    return tuple(_whole(each, "a number of ranks") for each in value)


def _object(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} is {_shown(value)}; expected an object")
    return value


def _shown(value: object) -> str:
    return f"{str(value)[:40]!r}" if not isinstance(value, str) else f"the text {value[:40]!r}"


def _network(written: object) -> NetworkCost | None:
    if written is None:
        return None
    if not isinstance(written, dict):
        raise ValueError(f"network is {_shown(written)}")
    return network_from(written, _line(written["source"]))


def _host_of(written: object) -> tuple[int, ...]:
    """The host of each rank that measured, of a part that `_network` has read; () where it is not there."""
    found = written.get("hosts", []) if isinstance(written, dict) else []
    if not isinstance(found, list) or not all(type(host) is int and 0 <= host < len(found) for host in found):
        raise ValueError(f"network hosts is {_shown(found)}")
    return tuple(found)


def _line(text: object) -> str:
    """A text that may be printed; ValueError for another."""
    if not isinstance(text, str) or not text.isprintable() or len(text) > 200:
        raise ValueError(f"{str(text)[:40]!r} is no short line of text")
    return text


def _words(machine: object) -> str:
    if not isinstance(machine, dict):
        return "which it does not name"
    return f"{str(machine.get('cores'))[:20]!r} cores of {str(machine.get('cpu'))[:80]!r}".replace("'", "")
