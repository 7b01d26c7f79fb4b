"""A folder of checkpoints: the one of the most steps, and how a new one gets its name, so that there is always one."""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

FACTS = "training.json"
"""The file that a whole checkpoint has: it is written last, and removed first."""
NAME = re.compile(r"step-(\d{8,})")
UNFINISHED, REPLACED = "unfinished", "replaced"
TOKEN_DIGITS = 18
HERE = -100
"""The folder of renameat2 from which paths begin at the working one (AT_FDCWD)."""
EXCHANGE = 2
"""The flag of renameat2 by which each of the two gets the other's name, at once."""


def latest(folder: Path) -> Path | None:
    """The checkpoint of a folder that has the most steps; None where there is none. One that a job was about to
    replace when it ended is one, as long as no other has its name."""
    steps = {int(match[1]): left for left, match in _left(folder, REPLACED) if (left / FACTS).exists()}
    made = ((file, NAME.fullmatch(file.name)) for file in folder.glob("step-*") if file.is_dir())
    steps |= {int(match[1]): file for file, match in made if match}
    return steps[max(steps)] if steps else None


def claim(folder: Path) -> int:
    """Makes a folder of checkpoints this process's own until it closes the descriptor, or ends. ValueError: if it is
    another's."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ValueError(
            f"{folder}: another training writes its checkpoints there; expected its end, or a folder for each"
        ) from None
    except OSError:
        pass  # a file system without locks
    return descriptor


def leave_token(folder: Path) -> str:
    """The name of an empty file in a folder, which no other folder has; "" where it cannot be made: who writes next
    reports why. Named as what an ended job left, it goes as that does if nobody removes it."""
    token = beside(folder / f"step-{secrets.randbelow(10**TOKEN_DIGITS):0{TOKEN_DIGITS}}")
    try:
        token.touch(exist_ok=False)
    except OSError:
        return ""
    return token.name


def beside(made: Path, what: str = UNFINISHED) -> Path:
    """The folder in which the checkpoint `made` is written, or that it is in while it is REPLACED."""
    return made.with_name(f".{made.name}.{what}")


def begin(unfinished: Path) -> None:
    """Makes the folder in which a checkpoint is written. What ended jobs left goes; a checkpoint that one was about to
    replace gets its name back."""
    folder = unfinished.parent
    for left, match in _left(folder, REPLACED):
        name = folder / match[0]
        if (left / FACTS).exists() and not name.exists():
            left.rename(name)
        else:
            discard(left)
    for left, _ in _left(folder, UNFINISHED):  # also those of steps that did not fit
        discard(left)
    unfinished.mkdir(parents=True)


def take_name(unfinished: Path, made: Path) -> None:
    """Gives a whole checkpoint its name, in place of one of as many steps."""
    if _exchanged(unfinished, made):
        _settle(made.parent)
        discard(unfinished)
        return
    replaced = beside(made, REPLACED)
    if made.exists():
        made.rename(replaced)  # until the next line, `latest` finds it by this name
    unfinished.rename(made)
    _settle(made.parent)
    discard(replaced)


def remove_earlier(made: Path, keep: int, is_whole: Callable[[Path], bool]) -> None:
    """Removes checkpoints of fewer steps than `made` from its folder, but for the `keep` - 1 of the most steps. One
    that is not `is_whole`, and a link, stay and do not count; one that cannot be removed stays."""
    found = ((file, NAME.fullmatch(file.name)) for file in made.parent.glob("step-*"))
    steps = {int(match[1]): file for file, match in found if match and file.is_dir() and not file.is_symlink()}
    last = int(made.name.removeprefix("step-"))
    earlier = [k for k in sorted(steps, reverse=True) if k < last and is_whole(steps[k])]
    for k in earlier[keep - 1 :]:
        left = beside(steps[k])
        with suppress(OSError):
            steps[k].rename(left)  # so that of a job that ends here, the next one removes the rest
            discard(left)


def discard(left: Path) -> None:
    """Removes what is no checkpoint any more, so that at no moment a part of it looks like one."""
    with suppress(OSError):
        (left / FACTS).unlink()
    if left.is_dir() and not left.is_symlink():
        shutil.rmtree(left, ignore_errors=True)
    else:
        with suppress(OSError):
            left.unlink()


def _settle(folder: Path) -> None:
    """Lets the names that were given in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _left(folder: Path, what: str) -> list[tuple[Path, re.Match[str]]]:
    """Folders of checkpoints that have no name yet, or none any more; each with the match of that name."""
    found = ((file, NAME.fullmatch(file.name[1 : -len(what) - 1])) for file in folder.glob(f".step-*.{what}"))
    return [(file, match) for file, match in found if match]


def _exchanged(one: Path, other: Path) -> bool:
    """Whether the two have got each other's names; not where the file system or the system has no such call, or one is
    not there."""
    call = getattr(ctypes.CDLL(None), "renameat2", None)
    return call is not None and call(HERE, os.fsencode(one), HERE, os.fsencode(other), EXCHANGE) == 0
