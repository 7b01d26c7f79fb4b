"""The subject of a command: an algorithm by its name, or a schedule in a file."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from ringtree.algorithms import REGISTRY, build, exists, find, known
from ringtree.algorithms.groups import host_group
from ringtree.algorithms.own import functions_in, is_reference
from ringtree.cli.options.subject import MOST_RANKS
from ringtree.files.file_bytes import is_standard_input, standard_input
from ringtree.formats import Imported, load, parse
from ringtree.formats.imported import LARGEST_BYTES
from ringtree.ir.collective import collective
from ringtree.ir.lower import lower
from ringtree.ir.program import Program
from ringtree.ir.schedule import Schedule

Options = Sequence[tuple[str, object]]
_WRITTEN = {
    "ranks": "-n/--ranks",
    "others": "--with",
    "minbytes": "-b/--minbytes",
    "maxbytes": "-e/--maxbytes",
    "stepfactor": "-f/--stepfactor",
}


def option_name(argument: str) -> str:
    """The option as a user may have typed it, by the name of its argument: `-n/--ranks` of `ranks`."""
    return _WRITTEN.get(argument, f"--{argument.replace('_', '-')}")


def is_file(text: str) -> bool:
    """Whether `text` is meant as a schedule's file; ValueError where it is neither that nor an algorithm, as where a
    Python file lacks its function."""
    if text in REGISTRY or is_reference(text):
        return False
    if is_standard_input(text):
        return True
    if not text:
        raise ValueError("'' is neither an algorithm nor a file; expected a name, such as ring, or a file's path")
    if text.endswith(".py") and Path(text).is_file():
        there = functions_in(text)
        found = f", one of {', '.join(there)}" if there else ", and the file has none"
        raise ValueError(f"{text} is a file of functions: expected {text}:FUNCTION{found}")
    if Path(text).exists() or "/" in text or "." in text:
        return True
    if not exists(text):
        expected = f"{', '.join(known())}, or FILE.py:FUNCTION"
        raise ValueError(f"{text!r} is neither an algorithm nor a file: expected a file, or one of {expected}")
    return False


def names(listed: str | None) -> list[str]:
    """The names in --algorithm, in order, each once. ValueError: where one is empty."""
    found = listed.split(",") if listed else []
    if "" in found:
        raise ValueError(f"--algorithm {listed}: an empty name; expected such as ring,double_tree")
    return list(dict.fromkeys(found))


def read(path: str) -> tuple[Schedule, tuple[Program, ...]]:
    """A schedule from a file, with its own programs where the file is in the rank's view, else lowered ones."""
    found = load(path)
    return found.schedule, found.programs or lower(found.schedule)


def schedule(args: argparse.Namespace, host_of: Sequence[int] = ()) -> Schedule:
    """The algorithm's schedule that the arguments name, over ranks on these hosts."""
    collective_name = collectives(args.what, args.collective)[0]
    return built(args.what, collective_name, ranks_of(args), args.root, options(args, host_of))


def ranks_of(args: argparse.Namespace) -> int:
    """The number of ranks that the arguments name, for an algorithm; ValueError where there can be none of it."""
    ranks = 8 if args.ranks is None else int(args.ranks)
    if ranks > MOST_RANKS:
        raise ValueError(f"{ranks} ranks: expected at most {MOST_RANKS}")
    if ranks < 1:
        raise ValueError(f"{args.what} over {ranks} ranks: expected at least 1")
    return ranks


def options(args: argparse.Namespace, host_of: Sequence[int] = ()) -> Options:
    """The algorithm's options: those given, and groups as the hosts are where none are given."""
    grouped = {} if "group" in dict(args.option) else _grouped(args, host_of)
    return (*args.option, *grouped.items())


def group_in_words(args: argparse.Namespace, host_of: Sequence[int]) -> str:
    """The option `group` that was taken from the hosts, in words; empty where there is none."""
    grouped = {} if "group" in dict(args.option) else _grouped(args, host_of)
    return "".join(f"group={each}: the ranks of a host (--option group=G sets another)" for each in grouped.values())


def _grouped(args: argparse.Namespace, host_of: Sequence[int]) -> dict[str, int]:
    return host_group(args.what, collectives(args.what, args.collective)[0], host_of)


def loaded(path: str) -> Imported:
    """The schedule in a file, or on standard input."""
    if is_standard_input(path):
        return parse(Path("standard input"), standard_input("a schedule", LARGEST_BYTES))
    return load(path)


def from_file(args: argparse.Namespace, *others: str) -> Imported:
    """Reads the file; ValueError for an argument, of these and the `others`, that only an algorithm can have."""
    for option in ("ranks", "collective", "root", "option", *others):
        if is_given(getattr(args, option)):
            raise ValueError(f"{option_name(option)} applies to algorithms, not to files; leave it out")
    return loaded(args.what)


def is_given(value: object) -> bool:
    """Whether an argument was given, by its value; 0 counts as given."""
    return value is not None and value is not False and value != []


def given(args: argparse.Namespace, names: Sequence[str]) -> list[str]:
    """The options, of these arguments, that were given; 1 is none: one node, no oversubscription."""
    values = {name: getattr(args, name, None) for name in names}
    return [option_name(name) for name, value in values.items() if is_given(value) and (value is True or value != 1)]


def built(algorithm: str, collective_name: str, ranks: int, root: int | None, options: Options) -> Schedule:
    """The algorithm's schedule; ValueError for options that it cannot have."""
    if ranks > MOST_RANKS:
        raise ValueError(f"{ranks} ranks: expected at most {MOST_RANKS}")
    try:
        return build(algorithm, collective_name, ranks, root, **dict(options))
    except TypeError as refusal:
        if not options:
            raise
        raise ValueError(f"{algorithm}: {refusal}") from None


def collectives(algorithm: str, asked: str | None) -> Sequence[str]:
    """The collectives in question: the one asked for, else all that the algorithm serves."""
    if asked is None:
        return find(algorithm).serves
    collective(asked)
    return (asked,)


def roots(collective_name: str, ranks: int) -> Sequence[int | None]:
    """The roots worth proving: 0, 1 and n-1. A collective without root: None."""
    return sorted({0, min(1, ranks - 1), ranks - 1}) if collective(collective_name).rooted else [None]


def every(algorithms: Iterator[str] | Sequence[str], asked: str | None) -> Iterator[tuple[str, str]]:
    """(algorithm, collective) for each of the algorithms and what it serves, or the one collective asked for."""
    for name in algorithms:
        for collective_name in find(name).serves:
            if asked in (None, collective_name):
                yield name, collective_name
