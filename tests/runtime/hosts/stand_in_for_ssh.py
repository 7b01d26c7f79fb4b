"""A stand-in for ssh: `stand_in_for_ssh.py [HOST=PID …] HOST COMMAND`.

Hosts are namespaces that the process PID is in, shells of this machine (a, b, c), and some with a peculiarity. A
command starts in / and finds little of the caller's environment, as with ssh.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import NoReturn

MARK = "RINGTREE_TESTS_MARK"
"""The variable that all processes of a job have, by which a test finds them."""


def shell(command: str, *enter: str) -> NoReturn:
    os.chdir("/")
    env = {"HOME": "/", "PATH": os.environ["PATH"], MARK: os.environ.get(MARK, "")}
    env["TMPDIR"] = os.environ.get("TMPDIR", "/tmp")
    os.execvpe("env", ["env", *enter, "sh", "-c", command], env)


def fails(line: str, code: int) -> NoReturn:
    print(line, file=sys.stderr)
    sys.exit(code)


def far(command: str) -> NoReturn:
    """The command in a process of its own, as behind a network: it ends only when its standard input does."""
    process = subprocess.Popen(
        ["env", "-C", "/", "sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdin is not None and process.stdout is not None
    given, answers = process.stdin, process.stdout

    def forth() -> None:
        while data := os.read(0, 1 << 16):
            os.write(given.fileno(), data)
        given.close()

    threading.Thread(target=forth, daemon=True).start()
    while data := os.read(answers.fileno(), 1 << 16):
        os.write(1, data)
    os._exit(process.wait())


def main(words: list[str]) -> NoReturn:
    lab = dict(word.split("=") for word in words[:-2])
    name, command = words[-2:]
    if name in lab:
        shell(command, "nsenter", "-t", lab[name], "-n", "-u", "-i", "-m", "-T", "--wd=/")
    match name:
        case "a" | "b" | "c":
            shell(command)
        case "far":
            far(command)
        case "refused":
            fails("me@refused: Permission denied (publickey).", 255)
        case "mute":
            sys.exit(3)
        case "silent":
            shell("exec sleep 1000")
        case "older":
            shell("""echo 'ringtree agent {"version": "0.0.1"}'; exec cat >/dev/null""")
        case "chatty":
            resumed = "sed -u '/^ringtree agent/a Session resumed'"  # something else that prints where the agent does
            shell(f"printf 'Welcome!\\nringtree'; echo 'a warning' >&2; {command} | {resumed}")
    fails(f"ssh: Could not resolve hostname {name}: Name or service not known", 255)


if __name__ == "__main__":
    main(sys.argv[1:])
