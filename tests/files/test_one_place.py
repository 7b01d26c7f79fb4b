"""Files that others wrote are opened and parsed in `ringtree.files` alone; what else reads, reads something else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.sources import parsed

SRC = Path(__file__).parent.parent.parent / "src/ringtree"
READS = {"open", "read_text", "read_bytes", "loadtxt", "genfromtxt", "fromfile", "memmap"}
"""Calls by these names, whatever they are of."""
PARSES = {
    "json": {"load", "loads"},
    "np": {"load"},
    "gzip": {"open"},
    "pickle": {"load", "loads"},
    "marshal": {"loads"},
}
PARSES |= {"cloudpickle": {"load", "loads"}, "torch": {"load"}, "etree": {"parse"}, "ElementTree": {"parse"}}
FOREIGN = {
    # reads of the kernel's files, of the package's own, and of what this very process wrote
    "bench/machine.py": "/sys and /proc",
    "machines/sysfs.py": "/sys and /proc, without waiting, a mebibyte at most",
    "pages/__init__.py": "the package's own files",
    "runtime/bootstrap/network/addresses.py": "/proc",
    "runtime/bootstrap/environment.py": "/proc",
    "runtime/limits.py": "/proc and /sys",
    "runtime/bootstrap/local/siblings.py": "/proc",
    "runtime/observing/own_processes.py": "/proc",
    "runtime/observing/stacks.py": "/proc, and a rank's own stacks",
    "runtime/observing/worlds.py": "/proc, and a group's shared memory, which the core checks",
    "runtime/bootstrap/local/shared_memory.py": "/proc, /sys, and new files without a name",
    "runtime/engines/device/compiling.py": "the user's cache of compiled programs, of its own making",
    "runtime/engines/engine.py": "the package's own file",
    "runtime/engines/shm.py": "/proc",
    "runtime/launch/own_cores.py": "/sys",
    "runtime/linux.py": "/proc",
    "runtime/processor.py": "/proc",
    "torch_backend/locality.py": "/proc",
    "training/core/text.py": "Python's own library",
    "cli/__init__.py": "/dev/null",
    "mpi/windows/shared_memory.py": "the leader's descriptor in /proc",
    # what ranks of one job tell each other; see docs/security.md
    "bench/host_links.py": "ranks to rank 0",
    "mpi/messages/objects.py": "objects between ranks",
    "mpi/windows/accesses.py": "objects between ranks",
    "mpi/windows/window_target.py": "objects between ranks",
    "ray/rank.py": "its own error",
    "runtime/bootstrap/local/socket_messages.py": "ranks of one user, as the kernel says",
    "runtime/bootstrap/network/connection.py": "ranks that proved the secret; 1 KiB before",
    "runtime/bootstrap/network/contact.py": "where rank 0 announces itself",
    "runtime/communicator/calls/decisions.py": "ranks of one host",
    "runtime/communicator/collectives/objects.py": "objects between ranks",
    "runtime/communicator/messages/point_to_point.py": "objects between ranks",
    "runtime/launch/hosts/agent.py": "the launcher's order, and its ranks' recordings",
    "runtime/launch/hosts/messages.py": "the agent's answers",
    "runtime/launch/spawn_processes.py": "a parent and its ranks",
    "runtime/tracing/files.py": "its ranks' recordings, in a folder of the launcher's own",
    "cli/train/ranks.py": "its ranks' errors, in a folder of the launcher's own",
    "cli/doctor/software.py": "a process that it started",
    "torch_backend/announcing.py": "members of a group, by torch's store",
    "torch_backend/waiting.py": "members of a group, by torch's store",
    # writes, and reads that have their own bounds
    "storage/reading.py": "a file that ringtree.files has opened, past the page cache",
    "storage/saving.py": "writes",
    "runtime/launch/hosts/agents.py": "writes",
    "runtime/launch/printer.py": "writes",
    "training/core/checkpoint.py": "writes, and digests of any length",
    "training/core/checkpoint_folder.py": "a folder's descriptor, to lock and to settle it",
    "runtime/bootstrap/network/boards/file_board.py": "of this user alone, without waiting, 64 KiB at most",
    "cli/options/subject.py": "a word of the command line",
    "ir/parse.py": "a word of a schedule, of which its own reader bounds the length",
}
"""Files that read by themselves, and what."""
WRITES = {"files/replacing.py", "files/unfinished.py"}
"""Files of the same room that write."""


CALLED = re.compile(rf"\b({'|'.join(READS.union(*PARSES.values()))})\(")
REPLACED = re.compile(r"\bwrite_(text|bytes)\b")


def sources(pattern: re.Pattern[str]) -> Iterator[Path]:
    """The files whose text has a match: to parse all of them takes seconds."""
    return (path for path in SRC.rglob("*.py") if pattern.search(path.read_text(encoding="utf-8")))


def reads(path: Path) -> bool:
    for node in ast.walk(parsed(path)):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id == "open":
            return True
        if isinstance(node.func, ast.Attribute):
            of = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
            if node.func.attr in READS or node.func.attr in PARSES.get(of, ()):
                return True
    return False


def test_files_of_others_are_read_in_one_place() -> None:
    found = {str(p.relative_to(SRC)) for p in sources(CALLED) if reads(p)}
    own = {name for name in found if name.startswith("files/")}
    assert own - WRITES == {"files/file_bytes.py", "files/json_values.py"}
    assert sorted(found - own - set(FOREIGN)) == [], "expected ringtree.files to read it"
    assert sorted(set(FOREIGN) - found) == [], "it reads nothing: expected no line for it"


IN_PLACE = {
    "runtime/tracing/files.py": "the first of a recording, in a folder of the launcher's own",
    "cli/train/ranks.py": "a rank's error, in a folder of the launcher's own",
}
"""Files that write others in place, of which nobody keeps an older one."""


def test_files_of_users_are_replaced_as_a_whole() -> None:
    """Path.write_text empties a file first, and writes it as the locale has it."""
    found = {
        str(path.relative_to(SRC))
        for path in sources(REPLACED)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute) and node.attr in ("write_text", "write_bytes")
    }
    assert sorted(found - set(IN_PLACE)) == [], "expected ringtree.files.replacing to write it"
    assert sorted(set(IN_PLACE) - found) == [], "it writes nothing in place: expected no line for it"
