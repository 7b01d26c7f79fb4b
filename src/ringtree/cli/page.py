"""Pages on the disk."""

from __future__ import annotations

from pathlib import Path


def write(path: Path, html: str) -> None:
    """Writes the page and says where it lies. ValueError where it cannot lie there."""
    if not path.absolute().parent.is_dir():
        raise ValueError(f"{path}: no such folder to write to")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; expected a file to write to")
    path.write_text(html, encoding="utf-8")
    print(f"{path}: any browser opens it")
