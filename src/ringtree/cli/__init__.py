"""The command line: `ringtree COMMAND`.

A command's options and its help are in a file of `options`, its work in one of the same name here. Only those of the
command that is asked for are imported, and what does the work once the options are known to be right.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import Any, NoReturn

import ringtree

GROUPS = {
    "running": {
        "run": "start a program as N ranks, here or on several hosts",
        "train": "train a language model, by any product of parallelisms",
        "bench": "time a collective, in nccl-tests' columns, all elements checked",
        "report": "show results of bench: charts, or the best algorithm by size",
        "tune": "measure this machine; later calls choose algorithms by it",
        "doctor": "check this host, and every link between hosts",
        "ps": "list the groups that run here: ranks, processes, who waits",
        "stack": "show the Python stacks of a group's ranks, also when it hangs",
        "info": "print this machine's cores, memory and software versions",
        "version": "print ringtree's version",
    },
    "planning": {
        "topo": "detect this machine; draw those of the catalogue or of files",
        "plan": "predict a collective's time and algorithm on a cluster",
        "explain": "find why a job hangs, from dumps; or why it is slow, from a log",
        "search": "find the quickest schedule and order of ranks for a machine",
        "sweep": "compare predicted times of algorithms, over sizes and ranks",
    },
    "schedules": {
        "algorithms": "list the algorithms and their costs",
        "show": "show a schedule, round by round, or a trace",
        "prove": "prove that algorithms or a schedule file are correct",
        "simulate": "simulate a schedule on a topology: time, critical path, links",
        "compare-trace": "compare two traces: measured and simulated, before and after",
        "export": "write a schedule as a file for MSCCL, RCCL or MSCCL++",
    },
}
"""The commands, with a line of help each, by the folder of their options."""
TITLES = {
    "running": "run programs, measure, and find what is wrong",
    "planning": "plan for a machine or a cluster",
    "schedules": "understand algorithms and schedules",
}
COMMANDS = {name: line for commands in GROUPS.values() for name, line in commands.items()}
RANKS = ("run", "bench", "tune")
"""Commands that start ranks whatever their options are."""


NEAR = 0.75
"""The similarity (of difflib) from which an option is named that a user may have meant."""


class Parser(argparse.ArgumentParser):
    """argparse, but an error is one line that names the help to read."""

    def error(self, message: str) -> NoReturn:
        """Prints the error in one line and exits with code 2."""
        print(f"{self.prog}: {message} ({self.prog} --help lists all options)", file=sys.stderr)
        raise SystemExit(2)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Reads the words as argparse does; what is left over is an error of this parser, the command's own, with the
        nearest option that it has."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            near = [option for word in unknown if (option := self._nearest(word))]
            meant = f"; did you mean {' and '.join(dict.fromkeys(near))}?" if near else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")
        return found, unknown

    def _nearest(self, word: str) -> str:
        """The option that a word is nearest to; empty where none is near."""
        if not word.startswith("--"):
            return ""
        known = [option for option in self._option_string_actions if option.startswith("--")]
        matches: list[str] = import_module("difflib").get_close_matches(word.partition("=")[0], known, 1, NEAR)
        return "".join(matches)


class ShowVersion(argparse.Action):
    """Prints the version and exits. Looking it up takes longer than all else that a parser needs."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """As argparse's own action does it."""
        print(f"ringtree {ringtree.__version__}")
        parser.exit()


def parser_for(command: str | None) -> Parser:
    """The parser, with the options of `command` only: the other commands are names and a line of help."""
    parser = Parser(
        prog="ringtree",
        usage="ringtree [-h] [--version] COMMAND ...",
        description="Collectives as data: proved, measured and run.",
        epilog=_listed(),
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=ShowVersion, nargs=0, help="show program's version number and exit")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, prog="ringtree", help=argparse.SUPPRESS
    )
    for name in COMMANDS:
        if name == command:
            module = import_module(f"ringtree.cli.options.{_folder(name)}.{name.replace('-', '_')}")
            one = commands.add_parser(
                name,
                description=module.__doc__,
                allow_abbrev=False,
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
            one.set_defaults(work=name.replace("-", "_"))
            module.add_arguments(one)
        else:
            commands.add_parser(name, add_help=False)
    return parser


def _folder(command: str) -> str:
    return next(folder for folder, commands in GROUPS.items() if command in commands)


def _listed() -> str:
    """The commands in their groups, for help."""
    width = max(map(len, COMMANDS))
    groups = (
        "\n".join([f"{TITLES[folder]}:", *(f"  {name:{width}}  {line}" for name, line in commands.items())])
        for folder, commands in GROUPS.items()
    )
    return "\n\n".join([*groups, "ringtree COMMAND --help shows a command's options and examples."])


def main(argv: Sequence[str] | None = None) -> int:
    """Does one command; returns its exit code: 2 for a call that makes no sense, 1 for one that failed."""
    words = list(sys.argv[1:] if argv is None else argv)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started this command
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # until the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # what its encoding has not is a question mark, no failure
    if not words:
        parser_for(None).print_help(sys.stderr)
        return 2
    command = next((w for w in words if not w.startswith("-")), None)
    if command is not None and command not in COMMANDS:
        print(f"ringtree: no command {command!r}: expected one of {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    args = parser_for(command).parse_args(words)
    if "command_line" in args:  # of commands that start themselves elsewhere
        args.command_line = words
    try:
        if files := sys.modules.get("ringtree.cli.options.files"):  # of commands that read any
            files.check_read(args)
        if args.command in RANKS:
            import_module("ringtree.runtime.linux").require_linux()
        code = _done(args, words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our pipe has gone; give the interpreter's last flush somewhere to go
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        if os.environ.get("RINGTREE_DEBUG") == "trace":
            raise
        lost = isinstance(error, OSError) and _has_lost_output() and error.filename is None
        what = "standard output: " if lost else ""
        print(f"ringtree {args.command}: {what}{one_line(error)}", file=sys.stderr)
        return 1


def _done(args: argparse.Namespace, words: Sequence[str]) -> int:
    """Does the command; returns its exit code. What a file of algorithms prints goes to stderr."""
    work: Callable[[argparse.Namespace], int] = import_module(f"ringtree.cli.{args.work}").run
    if not any(".py:" in word for word in words):
        return work(args)
    with import_module("ringtree.algorithms.own").printing_apart():
        return work(args)


def _has_lost_output() -> bool:
    """Whether what was printed cannot be written: its disk is full. Then nothing more is tried to be."""
    try:
        sys.stdout.flush()
        os.write(sys.stdout.fileno(), b"")  # without a buffer, what was lost is not there any more
    except ValueError:  # no file, or a closed one
        return False
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def one_line(error: Exception) -> str:
    """Returns the error as one line: the message of a user's mistake, or an internal error with its type."""
    text = str(error)
    if isinstance(error, RuntimeError) and isinstance(error, import_module("ringtree.errors").RankFailed):
        text = text.partition("\n\n")[0]  # its rank's traceback is behind that
    message = _on_a_line(text)
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"no such file: {_on_a_line(os.fsdecode(error.filename))}"
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return _on_a_line(f"{os.fsdecode(error.filename)}: {error.strerror}")
    if isinstance(error, OSError) and error.strerror:
        return _on_a_line(_with_limit(error))
    if isinstance(error, (ValueError, OSError, RuntimeError, ImportError)) and message:
        return message
    if isinstance(error, MemoryError):
        return f"not enough memory: {message or 'expected a smaller problem'}"
    return f"internal error, {type(error).__name__}: {message} (RINGTREE_DEBUG=trace shows where)"


def _with_limit(error: OSError) -> str:
    """The reason of an error of the system, with the limit behind it where there is one."""
    if sys.platform != "linux" or error.strerror != os.strerror(error.errno or 0):
        return str(error.strerror)
    return str(import_module("ringtree.runtime.limits").explained(error))


def _on_a_line(text: str) -> str:
    """The text in one line, without what moves a terminal's cursor."""
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))
