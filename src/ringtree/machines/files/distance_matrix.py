"""The matrix that `nvidia-smi topo -m` prints: how far each GPU and NIC is from each other."""

from __future__ import annotations

import re
from dataclasses import dataclass

_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
_CELL = re.compile(r"X|NV\d{1,4}|PIX|PXB|PHB|NODE|SYS|SOC")
_NAMED = re.compile(r"\s*(NIC\d+)\s*:\s*([\w.:@+-]{1,40})\s*$")
_MOST_LINES = 5_000
NEAR = {"PIX": 0, "PXB": 1, "PHB": 2, "NODE": 2, "SYS": 3}
"""Levels of the tree at which two devices meet; PHB and NODE are both at a CPU."""


@dataclass(frozen=True, slots=True)
class DistanceMatrix:
    """`names` are the columns'; `cells[a][b]` a level of NEAR, X, or NV and a number of links; `numa`: each
    row's NUMA node as printed, or else its cores, empty where neither is; `called` NICs' names in the legend; `lines`
    the rows' line numbers."""

    file: str
    names: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    numa: tuple[str, ...]
    called: dict[str, str]
    lines: tuple[int, ...]

    def is_gpu(self, position: int) -> bool:
        """Whether a row is a GPU's; all others are NICs'."""
        return re.fullmatch(r"GPU\d+", self.names[position]) is not None

    def nvlinks(self, a: int, b: int) -> int:
        """Number of NVLinks in a cell."""
        return int(self.cells[a][b][2:]) if self.cells[a][b].startswith("NV") else 0

    def refuse(self, a: int, b: int, problem: str) -> ValueError:
        """Returns the ValueError to raise: the cell's position, then the problem."""
        return ValueError(f"{self.file}: line {self.lines[a]}, {self.names[a]} to {self.names[b]}: {problem}")


def looks_like(data: bytes) -> bool:
    """Whether a row of a GPU with an X is among the first lines."""
    text = _COLOURS.sub("", data[:65_536].decode("utf-8", "replace"))
    return re.search(r"^\s*GPU\d+\s.*\bX\b", text, re.MULTILINE) is not None


def distance_matrix(data: bytes, file: str) -> DistanceMatrix:
    """The distances in a text with its colours and legend. ValueError, in one line with file, line and device: if rows
    and columns do not fit or differ."""
    lines = _COLOURS.sub("", data.decode("utf-8", "replace")).split("\n")[:_MOST_LINES]
    head = next((n for n, line in enumerate(lines) if re.match(r"\s*GPU\d+\b(?!.*\bX\b)", line)), None)
    if head is None:
        raise ValueError(f"{file}: no line of columns; expected `GPU0 GPU1 …`, as nvidia-smi topo -m begins")
    names = _columns(lines[head])
    if odd := [name for name in names if not re.fullmatch(r"[\w.:@+-]{1,40}", name, re.ASCII)]:
        raise ValueError(f"{file}: line {head + 1}: a column {odd[0][:20]!r}; expected such as GPU0, NIC0 or mlx5_0")
    if len(set(names)) < len(names):
        raise ValueError(f"{file}: line {head + 1}: a column twice; expected names that differ")
    rows: dict[str, tuple[int, list[str], str]] = {}
    called = {}
    for n, line in enumerate(lines[head + 1 :], head + 2):
        name = line.split(maxsplit=1)[0] if line.strip() else ""
        if name in names:
            if name in rows:
                raise ValueError(f"{file}: line {n}: a second row of {name}; expected one")
            cells, numa = _row(line, names, f"{file}: line {n}, {name}")
            rows[name] = (n, cells, numa)
        elif found := _NAMED.match(line):
            called[found[1]] = found[2]
    for name in names:
        if name not in rows:
            raise ValueError(f"{file}: no row of {name}, which is a column of line {head + 1}; expected all of both")
    matrix = DistanceMatrix(
        file,
        names,
        tuple(tuple(rows[n][1]) for n in names),
        tuple(rows[n][2] for n in names),
        called,
        tuple(rows[n][0] for n in names),
    )
    _check(matrix)
    return matrix


def _columns(line: str) -> tuple[str, ...]:
    words = line.split()
    for n, word in enumerate(words):
        if word in ("CPU", "NUMA") or words[n : n + 2] == ["GPU", "NUMA"]:
            return tuple(words[:n])
    return tuple(words)


def _row(line: str, names: tuple[str, ...], where: str) -> tuple[list[str], str]:
    """The row's cells, and its NUMA node as printed behind them: a number, else its cores."""
    parts = [p.strip() for p in line.split("\t")] if line.count("\t") > len(names) else line.split()
    cells = ["SYS" if c == "SOC" else c for c in parts[1 : len(names) + 1]]
    for name, cell in zip(names, cells, strict=False):
        if not _CELL.fullmatch(cell):
            raise ValueError(f"{where} to {name}: {cell[:20]!r}; expected X, NV12, PIX, PXB, PHB, NODE, SYS or such")
    if len(cells) < len(names):
        raise ValueError(f"{where}: {len(cells)} cells; expected {len(names)}, one a column")
    rest = [*parts[len(names) + 1 :], "", ""]
    cores, node = rest[0], rest[1]
    numa = node if re.fullmatch(r"\d{1,4}", node) else cores if re.fullmatch(r"[\d,-]+", cores) else ""
    return cells, numa


def _check(matrix: DistanceMatrix) -> None:
    for a in range(len(matrix.names)):
        for b in range(len(matrix.names)):
            cell = matrix.cells[a][b]
            if (cell == "X") != (a == b):
                raise matrix.refuse(a, b, f"{cell}; expected {'X' if a == b else 'a distance'}")
            if cell != matrix.cells[b][a]:
                raise matrix.refuse(a, b, f"{cell}, but {matrix.cells[b][a]} the other way; expected the same")
            if cell.startswith("NV") and not (matrix.is_gpu(a) and matrix.is_gpu(b)):
                raise matrix.refuse(a, b, f"{cell}; expected NVLinks between GPUs alone")
            if cell.startswith("NV") and not int(cell[2:]):
                raise matrix.refuse(a, b, "NV0; expected at least one NVLink")
