"""ringtree in four commands: what `make demo` runs. Each is printed before it runs, to be tried again by hand."""

import argparse
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.rule import Rule

HERE = Path(__file__).parent


def chapters(short):
    """(title, why, commands). `short` does the same on less, for the tests."""
    ranks = 4
    measured = max(2, min(ranks, len(os.sched_getaffinity(0))))
    epochs, largest = ("3", "64K") if short else ("15", "64M")
    return (
        ("This machine", "A figure without its machine says nothing.", (["info"],)),
        (
            "A collective is data, and it is proved",
            "Who sends which chunk to whom, and what is added. First seen, then proved for every input:\n"
            "nothing missing, nothing counted twice, no deadlock, no race.",
            (
                ["show", "ring", "-n", str(ranks), "--collective", "all_reduce"],
                ["prove", "ring", "--collective", "all_reduce", "--ranks", "1-8" if short else "1-32"],
            ),
        ),
        (
            "The same data, run: a network learns to read digits",
            f"{ranks} ranks, each its own shard of 1440 real scans; gradients averaged by all_reduce.",
            (["run", "-n", str(ranks), str(HERE / "digits.py"), "--epochs", epochs],),
        ),
        (
            "How fast",
            "nccl-tests' table. Every element of every call was compared with what it must be: see #wrong.",
            (["bench", "all_reduce", "-n", str(measured), "-b", "8", "-e", largest, "-f", "8"],),
        ),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="the same on less data")
    short = parser.parse_args().short
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 100)
    started = time.monotonic()
    for title, why, commands in chapters(short):
        console.print(Rule(f"[bold]{title}", align="left"))
        console.print(f"[dim]{why}\n")
        for words in commands:
            shown = [os.path.relpath(w) if os.path.isabs(w) else w for w in words]
            console.print(f"[bold green]$[/] ringtree {shlex.join(shown)}")
            code = subprocess.run([sys.executable, "-m", "ringtree.cli", *words]).returncode
            if code:
                raise SystemExit(f"demo: ringtree {words[0]} ended with exit code {code}")
            console.print()
    console.print(Rule(f"[bold]All of it verified, in {time.monotonic() - started:.0f} s", align="left"))


if __name__ == "__main__":
    main()
