"""Pages on the disk."""

from __future__ import annotations

from pathlib import Path

from ringtree.cli.destination import check_destination
from ringtree.formats.replacing import replacing


def write(path: Path, html: str, *others: str | Path) -> None:
    """Writes the page and says where it lies. ValueError where it cannot lie there, or is one of the `others`, which
    the command read."""
    check_destination(path, *others)
    with replacing(path) as file:
        file.write(html.encode(errors="replace"))  # half of a surrogate pair, in a name
    print(f"{path}: any browser opens it")
