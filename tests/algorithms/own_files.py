"""Algorithms of a user's own, as files: right ones, wrong ones, and other files."""

from __future__ import annotations

from pathlib import Path

ZIGZAG = '''"""Mine."""

import numpy as np

from ringtree.ir.schedule import Block, Schedule, Transfers


def zigzag(ranks, root, *, back: int = 0):
    """Zigzag: from the root to the last rank, to the first, to the last but one."""
    order = [(root + (-(i + 1) // 2 if i % 2 else i // 2)) % ranks for i in range(ranks)]
    rows = Transfers.of(order[:-1], order[1:], round=list(range(ranks - 1)))
    return Schedule("any name", "broadcast", ranks, 1, (Block(rows),) if ranks > 1 else (), root)


def star(ranks):
    """Star: all to rank 0, and back."""
    rank = np.arange(1, ranks)
    up, down = Transfers.of(rank, 0, reduce=True), Transfers.of(0, rank)
    return Schedule("star", "all_reduce", ranks, 1, (Block(up), Block(down)) if ranks > 1 else ())


def forgetful(ranks):
    """Does not answer the last rank."""
    rank = np.arange(1, ranks)
    up, down = Transfers.of(rank, 0, reduce=True), Transfers.of(0, rank[:-1])
    return Schedule("forgetful", "all_reduce", ranks, 1, (Block(up), Block(down)))


def powers(ranks):
    """Over powers of two only."""
    if ranks & (ranks - 1):
        raise ValueError("only powers of two")
    return star(ranks)


def deaf(ranks):
    return [(0, 1)]


def silent(ranks):
    pass


def broken(ranks):
    return 1 // 0


def of_other_ranks(ranks):
    return star(2)


def many(ranks, root, more):
    return star(ranks)


def rootless(ranks):
    return zigzag(ranks, 0)


def rooted(ranks, root):
    return star(ranks)


number = 5


class Thing:
    pass
'''


def write(folder: Path, text: str = ZIGZAG, name: str = "mine.py") -> str:
    """The file's path."""
    path = folder / name
    path.write_text(text)
    return str(path)


def install(folder: Path, package: str, text: str, **points: str) -> None:
    """A package of one module, with entry points for ringtree, as pip leaves it in a folder of sys.path."""
    (folder / f"{package}.py").write_text(text)
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = "".join(f"{name} = {value}\n" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[ringtree.algorithms]\n{lines}")
