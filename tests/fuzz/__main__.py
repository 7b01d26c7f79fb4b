"""`python -m tests.fuzz [--seconds N] [TARGET ...]`: fuzzes the core and the readers, guided by coverage, one after the
other.

The core needs clang with libFuzzer, the readers atheris (requirements.txt beside this file). What crashes is written to
build/fuzz/TARGET/ (of the core, to build/csrc/found/), and so is what reaches new code.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FOUND = HERE.parent.parent / "build" / "fuzz"
CORE = ("programs", "frames", "connections")
"""Targets of the core, in tests/csrc/fuzz."""
QUIET = re.compile(r"INFO: Instrumenting|#\d+\s+(?:NEW|REDUCE|RELOAD|pulse)")
MOST_MB = 2048
MOST_S = 10
"""Of one input: memory of the process, and time."""


def targets() -> dict[str, Any]:
    """The targets, with ringtree's code instrumented. atheris finds no module by the finder of an editable install,
    which therefore has to go once it has found the engine."""
    import atheris

    import ringtree._native

    for name in [n for n in sys.modules if n.split(".")[0] == "ringtree" and n != ringtree._native.__name__]:
        del sys.modules[name]
    sys.meta_path[:] = [finder for finder in sys.meta_path if "Redirecting" not in type(finder).__name__]
    sys.path.insert(0, str(HERE.parent.parent / "src"))
    with atheris.instrument_imports(include=["ringtree"]):
        from tests.fuzz.targets import TARGETS
    return dict(TARGETS)


def fuzz(name: str, seconds: int) -> None:
    """Runs one target in this process, which libFuzzer ends."""
    import atheris

    target = targets()[name]
    found = FOUND / name
    found.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (found / f"seed{number}").write_bytes(seed)
    folders = [str(found), *(str(kept) for kept in (HERE / "corpus" / name,) if kept.is_dir())]
    limits = [f"-max_total_time={seconds}", f"-rss_limit_mb={MOST_MB}", f"-timeout={MOST_S}", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={found}/", *folders], target.run)
    atheris.Fuzz()


def fuzz_core(name: str, seconds: int) -> bool:
    """Whether nothing was found."""
    make = ["make", "--no-print-directory", "-C", str(HERE.parent / "csrc"), "fuzz", f"FUZZERS={name}"]
    done = subprocess.run([*make, f"SECONDS={seconds}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return report(name, done.stdout, done.returncode)


def report(name: str, output: str, failed: int) -> bool:
    """Prints how many inputs were run; whether nothing was found."""
    ran = [line for line in output.splitlines() if "number_of_executed_units" in line]
    print(f"{name}: {ran[-1].split()[-1] if ran else '?'} inputs, {'FAILED' if failed else 'right'}", flush=True)
    if failed:
        print("\n".join([line for line in output.splitlines() if not QUIET.match(line)][-40:]))
    return not failed


def main() -> int:
    """Runs each target in a process of its own; returns 1 where one crashed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.here:
        fuzz(args.targets[0], args.seconds)
        return 0
    from tests.fuzz.targets import TARGETS

    right = True
    for name in args.targets or (*CORE, *TARGETS):
        if name in CORE:
            right &= fuzz_core(name, args.seconds)
            continue
        command = [sys.executable, "-m", "tests.fuzz", "--here", "--seconds", str(args.seconds), name]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        right &= report(name, done.stdout, done.returncode)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
