"""ringtree in a few commands: what `make demo` runs. Each is printed before it runs, to be tried again by hand."""

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
BUILD = HERE.parent / "build"
REPORT = f"{BUILD}/report.html"


def chapters(short):
    """(title, why, commands). `short` does the same on less, for the tests."""
    ranks = 4
    measured = max(2, min(ranks, len(os.sched_getaffinity(0))))
    epochs, largest = ("3", "64K") if short else ("15", "64M")
    return (
        ("This machine", "A figure without its machine means nothing.", (["info"],)),
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
            (
                ["bench", "all_reduce", "-n", str(measured), "-b", "8", "-e", largest, "-f", "8"]
                + ["--json", f"{BUILD}/bench.json", "--trace", f"{BUILD}/calls.json.gz"],
            ),
        ),
        (
            "To look at: pages that any browser opens",
            "Chunks on their way, every call as a timeline, and what was measured, beside all other algorithms.",
            (
                ["show", "double_tree", "-n", "8", "--html", f"{BUILD}/double_tree.html"],
                ["show", f"{BUILD}/calls.json.gz", "--html", f"{BUILD}/calls.html"],
                ["bench", "all_reduce", "-n", "2" if short else "2,4", "-b", "8", "-e", "4K" if short else "256K"]
                + ["-f", "8", "--algorithm", "all", "--iters", "20", "--json", f"{BUILD}/algorithms.json"],
                ["report", f"{BUILD}/bench.json", f"{BUILD}/algorithms.json", "--html", REPORT],
            ),
        ),
    )


def run(console, words):
    """Prints one command and runs it. The many tables of all algorithms are for the report only."""
    words = [os.path.relpath(w) if os.path.isabs(w) else w for w in words]
    output, aside = (subprocess.DEVNULL, " > /dev/null") if "--algorithm" in words else (None, "")
    console.print(f"[bold green]$[/] ringtree {shlex.join(words)}{aside}", soft_wrap=True)
    code = subprocess.run([sys.executable, "-m", "ringtree.cli", *words], stdout=output).returncode
    if code:
        raise SystemExit(f"demo: ringtree {words[0]} ended with exit code {code}")
    console.print()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="the same on less data")
    short = parser.parse_args().short
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 100)
    BUILD.mkdir(exist_ok=True)
    started = time.monotonic()
    for title, why, commands in chapters(short):
        console.print(Rule(f"[bold]{title}", align="left"))
        console.print(f"[dim]{why}\n")
        for words in commands:
            run(console, words)
    console.print(Rule(f"[bold]All of it verified, in {time.monotonic() - started:.0f} s", align="left"))
    console.print(f"The report lies in [bold]{os.path.relpath(REPORT)}[/].")


if __name__ == "__main__":
    main()
