"""The CSV that NCCL's example tuner plugin reads (NCCL_TUNER_CONFIG_FILE): which algorithm and protocol for which size.

Source: NVIDIA/nccl 2.30.7, plugins/tuner/example/plugin.c and, for the rows that NCCL ignores, src/graph/tuning.cc.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isqrt

from ringtree.nccl.tuning.all_pairs import ALL_PAIRS

COLLECTIVES = {
    "broadcast": "broadcast",
    "reduce": "reduce",
    "all_gather": "allgather",
    "reduce_scatter": "reducescatter",
    "all_reduce": "allreduce",
}
"""The plugin's name of each of ours."""
ALL = ("ll", "ll128", "simple")
SIMPLE = ("simple",)
Protocols = dict[str, tuple[str, ...]]
ROOTED: Protocols = {"ring": ALL}
SCATTERED: Protocols = {"ring": ALL, "nvls": SIMPLE, "collnet_direct": SIMPLE, "pat": SIMPLE}
REDUCED: Protocols = dict.fromkeys(("nvls", "nvls_tree", "collnet_direct", "collnet_chain"), SIMPLE)
REDUCED |= {"ring": ALL, "tree": ALL}
HEARD = {
    "broadcast": ROOTED,
    "reduce": ROOTED,
    "all_gather": SCATTERED,
    "reduce_scatter": SCATTERED,
    "all_reduce": REDUCED,
}
"""The algorithms and protocols NCCL prices for a collective: it ignores a line that names another."""
MOST_CHANNELS = 64
LONGEST_LINE = 254
"""Bytes: the plugin reads 255 at once, with the end of the line."""
BEYOND_BYTES = 2**64 - 1
HEADER = "# collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff"


@dataclass(frozen=True, slots=True)
class TunerRow:
    """A rule for sizes from `min_bytes` to `max_bytes`, both included. -1: any, and for `channels` NCCL's own
    number."""

    collective: str
    min_bytes: int
    max_bytes: int
    algorithm: str
    protocol: str
    channels: int = -1
    nodes: int = -1
    ranks: int = -1
    pipe_ops: int = -1
    reg_buff: int = -1

    def __post_init__(self) -> None:
        algorithms = tuple(REDUCED | SCATTERED)
        named = {"collective": tuple(COLLECTIVES), "algorithm": algorithms, "protocol": ALL}
        for key, known in named.items():
            if (value := getattr(self, key)) not in known:
                raise ValueError(f"a tuner's row has {key} {value!r}: expected one of {', '.join(known)}")
        if not 0 <= self.min_bytes <= self.max_bytes <= BEYOND_BYTES:
            raise ValueError(f"a tuner's row is from {self.min_bytes} to {self.max_bytes} bytes: expected min <= max")
        for key in ("channels", "nodes", "ranks", "pipe_ops", "reg_buff"):
            most = MOST_CHANNELS if key == "channels" else 2**31 - 1
            if not -1 <= (value := getattr(self, key)) <= most or (
                value == 0 and key in ("channels", "nodes", "ranks")
            ):
                raise ValueError(f"a tuner's row has {key} {value}: expected -1 for any, or 1..{most}")

    @property
    def heard(self) -> bool:
        """Whether NCCL applies the row."""
        return self.protocol in HEARD[self.collective].get(self.algorithm, ())


@dataclass(frozen=True, slots=True)
class TunerChoice:
    """The best choice at one size. Without an algorithm it is NCCL's own, which no row changes."""

    nbytes: int
    algorithm: str = ""
    protocol: str = ""
    channels: int = -1


def rows(collective: str, choices: Sequence[TunerChoice], nodes: int = -1, ranks: int = -1) -> tuple[TunerRow, ...]:
    """A row for each run of sizes with the same choice; from one to the next at the geometric mean of both, and half an
    octave beyond the first and the last: 4 MiB alone stands for 2.83 to 5.66 MiB. `choices` go by size, each once. A
    choice that NCCL would ignore is left out: NCCL then takes its own. ValueError for a collective that the plugin has
    no name of."""
    if collective not in COLLECTIVES:
        raise ValueError(f"a tuner's row has collective {collective!r}: expected one of {', '.join(COLLECTIVES)}")
    sizes = [c.nbytes for c in choices]
    if sizes != sorted(set(sizes)):
        raise ValueError(f"{collective}: sizes {sizes[:20]}; expected them ascending, each once")
    if not choices:
        return ()
    beside = [sizes[0] / 2, *sizes, sizes[-1] * 2]
    edges = [isqrt(int(a * b)) + 1 for a, b in pairwise(beside)]
    made: list[TunerRow] = []
    for choice, (low, above) in zip(choices, pairwise(edges), strict=True):
        if choice.algorithm in ("", ALL_PAIRS):  # RCCL plays the program of all pairs whatever a tuner says
            continue
        what = (choice.algorithm, choice.protocol, choice.channels)
        row = TunerRow(collective, low, above - 1, *what, nodes, ranks)
        before = made[-1] if made else row
        if before.max_bytes + 1 == low and (before.algorithm, before.protocol, before.channels) == what:
            made[-1] = replace(made[-1], max_bytes=row.max_bytes)
        else:
            made.append(row)
    return tuple(row for row in made if row.heard)


def write(table: Iterable[TunerRow]) -> str:
    """The file: a comment that names the columns, then a line each; rows that NCCL would ignore are left out."""
    lines = [HEADER]
    for row in table:
        if row.heard:
            size = (row.min_bytes, row.max_bytes)
            rest = (row.channels, row.nodes, row.ranks, row.pipe_ops, row.reg_buff)
            named = (row.algorithm, row.protocol)
            lines.append(",".join(map(str, (COLLECTIVES[row.collective], *size, *named, *rest))))
    return "\n".join(lines) + "\n"


def read(text: str, file: str = "tuner CSV") -> tuple[TunerRow, ...]:
    """The rows as the plugin takes them, its defaults for the last two fields. ValueError, with the line, where the
    plugin would silently take another value."""
    ours = {theirs: name for name, theirs in COLLECTIVES.items()}
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        where = f"{file}: line {number}"
        if len(line.encode()) > LONGEST_LINE:
            raise ValueError(f"{where}: {len(line.encode())} bytes; expected at most {LONGEST_LINE}")
        fields = [f.strip(" \t") for f in line.split(",")]
        if not 8 <= len(fields) <= 10:
            raise ValueError(f"{where}: {len(fields)} fields; expected 8 to 10: {HEADER[2:]}")
        if fields[0] not in ours:
            raise ValueError(f"{where}: collective {fields[0][:40]!r}; expected one of {', '.join(ours)}")
        try:
            low, high, *rest = (int(f) for f in (*fields[1:3], *fields[5:]))
            found.append(TunerRow(ours[fields[0]], low, high, fields[3], fields[4], *rest))
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
    return tuple(found)
