"""What a command is about: an algorithm by its name, or a schedule in a file."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from ringtree.algorithms import REGISTRY, build, exists, find, known
from ringtree.algorithms.own import absolute, is_reference
from ringtree.bench.machine import shared_memory
from ringtree.formats import Imported, chrome, load
from ringtree.ir.collective import collective
from ringtree.ir.lower import lower
from ringtree.ir.program import Program
from ringtree.ir.schedule import Schedule
from ringtree.machines.clusters import Cluster
from ringtree.machines.files.reading import find as find_machine
from ringtree.machines.nics import usual_fabric
from ringtree.plan import prove_own, steps_for
from ringtree.plan.steps import Steps
from ringtree.simulate.fit import fit
from ringtree.topology import Topology, parse
from ringtree.topology import load as load_topology
from ringtree.topology.fabrics import FABRICS
from ringtree.topology.text import SHAPES

Options = Sequence[tuple[str, object]]
MEASURED = "trace:"
"""Before the file of a measured trace, where a topology is expected."""
MOST_RANKS = 1 << 20
THEIRS = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "sendrecv": "send_recv",
}
"""nccl-tests' names of collectives, and ours."""


def is_file(text: str) -> bool:
    """Whether `text` is meant as a schedule's file; ValueError where it is neither that nor an algorithm."""
    if text in REGISTRY or is_reference(text):
        return False
    if Path(text).exists() or "/" in text or "." in text:
        return True
    if not exists(text):
        expected = f"{', '.join(known())}, or FILE.py:FUNCTION"
        raise ValueError(f"no algorithm and no file {text!r}: expected a file, or one of {expected}")
    return False


def read(path: str) -> tuple[Schedule, tuple[Program, ...]]:
    """A schedule from a file, with its own programs where the file is in the rank's view, else lowered ones."""
    found = load(path)
    return found.schedule, found.programs or lower(found.schedule)


def topology(text: str, ranks: int) -> Topology:
    """A machine for so many ranks: a shape in a few words, one as JSON in a file, `trace:FILE`, what a trace's machine
    is like, or a machine by name or file, as many of it as it takes."""
    if text.startswith(MEASURED):
        return fit([chrome.read(text.removeprefix(MEASURED))], ranks)
    if text.partition(":")[0] in SHAPES:
        return parse(text, ranks)
    if text.endswith(".json") and not _is_machine(text):
        return load_topology(text)
    return _machines(text, ranks)


def _is_machine(path: str) -> bool:
    """Whether a JSON file begins as a machine does; one of ranks and links has no such key."""
    if not Path(path).is_file():
        return False
    with open(path, "rb") as file:
        return b'"machine"' in file.read(64)


def _machines(text: str, ranks: int) -> Topology:
    """As many of a machine as make up the ranks, on the fabric its NICs are for."""
    try:
        machine = find_machine(text)
    except ValueError as refusal:
        if Path(text).exists():
            raise
        raise ValueError(f"topology {text!r}: no shape of that name ({', '.join(SHAPES)}), and {refusal}") from None
    each = Cluster(machine).ranks
    if ranks % each and ranks > each:
        raise ValueError(f"topology {text}: {ranks} ranks on machines of {each}; expected a multiple")
    if ranks < each:
        return Cluster(machine.part(range(ranks))).topology()
    fabric = usual_fabric(machine)
    return Cluster(machine, ranks // each, FABRICS[fabric] if fabric else None).topology()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What names one schedule: `schedule` and `from_file` read it."""
    add_what(parser, "ALGORITHM|FILE", "a name that `ringtree algorithms` lists, or a schedule's file")
    add = parser.add_argument
    add("-n", "--ranks", type=int, metavar="N", help="ranks (default 8; a file knows its own)")
    add("--collective", metavar="C", help="which of the collectives it serves (default: the first)")
    add("--root", type=int, help="the root, where the collective has one (default 0)")
    add_option(parser)


def add_what(parser: argparse.ArgumentParser, metavar: str, described: str) -> None:
    """The algorithm or file, as the first word or as `--algorithm`; one of them."""
    either = parser.add_mutually_exclusive_group(required=True)
    either.add_argument("what", nargs="?", default=argparse.SUPPRESS, metavar=metavar, help=described)
    either.add_argument(
        "--algorithm",
        dest="what",
        metavar="A",
        help="the same, as other commands have it: a name, or FILE.py:FUNCTION, a function of your own",
    )


def schedule(args: argparse.Namespace) -> Schedule:
    """The algorithm's schedule that the arguments name."""
    ranks = 8 if args.ranks is None else args.ranks
    return built(args.what, collectives(args.what, args.collective)[0], ranks, args.root, args.option)


def from_file(args: argparse.Namespace, *others: str) -> Imported:
    """What the file says; ValueError for arguments, of these and the `others`, that only an algorithm can have."""
    for option in ("ranks", "collective", "root", "option", *others):
        if is_given(getattr(args, option)):
            raise ValueError(f"a file says itself what it is; leave --{option} out")
    return load(args.what)


def is_given(value: object) -> bool:
    """Whether an argument was, by its value; 0 is one."""
    return value is not None and value is not False and value != []


def cut(schedule: Schedule, algorithm: str, nbytes: int) -> tuple[Schedule, Steps]:
    """As a call on that many bytes has it in a group of this machine, and by which steps."""
    what = algorithm, schedule.collective, schedule.ranks, schedule.root
    steps = steps_for(*what, nbytes, shared_memory(schedule.ranks))
    return steps.apply(*what), steps


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--option",
        type=_option,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an algorithm's own option, such as group=4; may be repeated",
    )


def _option(text: str) -> tuple[str, object]:
    """A name, and a word or any JSON."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is no option: expected such as group=4")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


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


def counts(text: str) -> list[int]:
    """`4`, `1-64` or `2,4,8-10`: rank counts."""
    found: list[int] = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        try:
            first, last = int(low), int(high if dash else low)
        except ValueError:
            raise ValueError(f"{text!r} is not a number of ranks: expected such as 8, 1-64 or 1,2,4") from None
        if not 1 <= first <= last <= MOST_RANKS:
            raise ValueError(f"{part} ranks: expected 1 to {MOST_RANKS}, and from low to high")
        found.extend(range(first, last + 1))
    return found


def span(ranks: Sequence[int]) -> str:
    """Rank counts as `counts` reads them, runs as from-to."""
    runs: list[list[int]] = []
    for n in ranks:
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in runs)


def rank_counts(text: str) -> list[int]:
    """`counts` as argparse wants it."""
    try:
        return counts(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def every(algorithms: Iterator[str] | Sequence[str], asked: str | None) -> Iterator[tuple[str, str]]:
    """(algorithm, collective) for each of the algorithms and what it serves, or the one collective asked for."""
    for name in algorithms:
        for collective_name in find(name).serves:
            if asked in (None, collective_name):
                yield name, collective_name


def proved(names: str, ranks: int) -> str:
    """Algorithms, as `two_shot,mine.py:function`, as ranks in any folder find them; a user's own are proved, whatever
    the root."""
    asked = names.split(",")
    for name in asked:
        for collective_name in find(name).serves:
            for root in roots(collective_name, ranks):
                prove_own(name, collective_name, ranks, root)
    return ",".join(absolute(name) if is_reference(name) else name for name in asked)
