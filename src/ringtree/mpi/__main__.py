"""Runs a program whose `from mpi4py import MPI` is then ringtree.mpi: a file, `-m package.module`, `-c code` or `-`
(standard input, which `ringtree run` gives rank 0 alone), with arguments.
Under `ringtree run -n 4 -m ringtree.mpi program.py` each rank does."""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
from pathlib import Path
from types import ModuleType

from ringtree import mpi


def main(arguments: list[str]) -> int:
    """Runs the program; 2 where none is named, or none is there."""
    if arguments[:1] in (["-h"], ["--help"]):
        sys.stdout.write(f"{__doc__}\n")
        return 0
    if arguments[:1] == ["-"] or (arguments[:1] == ["-c"] and arguments[1:]):
        return _run_code(arguments)
    named = arguments[:1] == ["-m"]
    if len(arguments) <= named or arguments[:1] == ["-c"]:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    name = arguments[int(named)]
    folder = "" if named else str(Path(name).resolve().parent)
    sys.path.insert(0, folder)
    if named and not _is_there(name):
        return _refused(f"no module {name}; expected one of the current folder, or an installed one")
    if not named and not Path(name).exists():
        return _refused(f"no file {name}; expected a program, or -m package.module")
    if not named and Path(name).is_dir() and not (Path(name) / "__main__.py").is_file():
        return _refused(f"{name} is a folder without __main__.py; expected a program, or -m package.module")
    mpi.replace()
    sys.argv[:] = arguments[named:]
    if named:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(os.path.abspath(name), run_name="__main__")
    return 0


def _run_code(arguments: list[str]) -> int:
    """Runs code from the arguments, or from standard input, as the main module."""
    given = arguments[0] == "-c"
    code, name = (arguments[1], "<string>") if given else (sys.stdin.read(), "<stdin>")
    sys.path.insert(0, "")
    sys.argv[:] = arguments[:1] + arguments[1 + given :]
    mpi.replace()
    program = sys.modules["__main__"] = ModuleType("__main__")
    exec(compile(code, name, "exec", dont_inherit=True), vars(program))
    return 0


def _is_there(module: str) -> bool:
    """Whether a module of that name can be imported, as far as its packages show."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError as missing:
        if missing.name is not None and f"{module}.".startswith(f"{missing.name}."):
            return False
        raise  # of a package, which imports what is not there


def _refused(why: str) -> int:
    sys.stderr.write(f"python -m ringtree.mpi: {why}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
