"""`python -m tests.mutants.core [--sample N] [--seed N] [--seconds N] [FILE ...]`: changes the core by one operator,
number or statement at a time, and runs the core's own tests, then Python's over the core. A mutant that they all pass
is a test that is missing, or changes nothing.

The tools for C++ need a build of LLVM's own or a plug-in of the compiler; this is a small one that needs neither.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutants import python_judges

ROOT = Path(__file__).parent.parent.parent
BUILD = ROOT / "build" / "mutants"
CORE = ROOT / "build" / "csrc" / "plain"
TESTS = ROOT / "tests" / "csrc"
FLAGS = ["-std=c++20", "-O1", "-fPIC", "-pthread", "-w", "-DRINGTREE_BASE_KERNELS_ONLY"]
COMMANDS = (("uses",), ("copies",), ("targets",), ("recorded",), ("agreement",), ("random_calls", "1", "12"),
            ("sleeping_sender",), ("reported",), ("relayed", "20"), ("fuzz_programs", "fuzz/corpus/programs"),
            ("fuzz_frames", "fuzz/corpus/frames"))  # fmt: skip
"""The tests that judge, with their arguments, the quickest to notice first."""
LIMIT_S = 20.0
JOBS = 2
CHANGES = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-", "-": "+",
    "*": "+", "++": "--", "+=": "-=", "-=": "+=", "true": "false", "false": "true", "0": "1", "1": "0", "!": "",
    "return false;": "return true;", "return true;": "return false;", "break;": "", "continue;": "",
}  # fmt: skip
TOKENS = re.compile(
    r'"(?:[^"\\]|\\.)*"|//.*|return (?:true|false);|break;|continue;|\b(?:true|false|[01])\b(?![.\w])|'
    r"->|<<|>>|\+\+|--|\+=|-=|<=|>=|==|!=|&&|\|\||(?<= )[<>+*-](?= )|!(?!=)"
)


@dataclass(frozen=True)
class Mutant:
    """A change of one token, in a line of a file."""

    file: Path
    line: int
    column: int
    old: str
    new: str

    def __str__(self) -> str:
        text = self.file.read_text().splitlines()[self.line].strip()
        return f"{self.file.relative_to(ROOT)}:{self.line + 1}: {self.old!r} -> {self.new!r} in `{text}`"

    def text(self) -> str:
        """The file with the change."""
        lines = self.file.read_text().splitlines()
        line = lines[self.line]
        lines[self.line] = line[: self.column] + self.new + line[self.column + len(self.old) :]
        return "\n".join(lines) + "\n"


def mutants(file: Path) -> Iterator[Mutant]:
    """Every change of a file that CHANGES knows."""
    for number, line in enumerate(file.read_text().splitlines()):
        if line.lstrip().startswith(("#", "//", "template", "static_assert")):
            continue
        for found in TOKENS.finditer(line):
            if (new := CHANGES.get(found[0])) is not None:
                yield Mutant(file, number, found.start(), found[0], new)


def ran(command: list[str], seconds: float) -> bool:
    """Whether it ended well, and in time."""
    try:
        return subprocess.run(command, cwd=TESTS, capture_output=True, timeout=seconds).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def linked(made: Path, inside: Path) -> list[str]:
    """The core's objects, `made` in the place of its own."""
    return [str(made), *(str(o) for o in sorted(CORE.rglob("*.o")) if o.relative_to(CORE) != inside.with_suffix(".o"))]


def verdict(mutant: Mutant, compiler: str) -> str:
    """`refused` by the compiler, the test that killed it, or `survived`."""
    inside = mutant.file.relative_to(ROOT / "csrc")
    folder = Path(tempfile.mkdtemp(dir=BUILD))
    try:
        return _verdict(mutant, inside, folder, compiler)
    finally:
        shutil.rmtree(folder)


def _verdict(mutant: Mutant, inside: Path, folder: Path, compiler: str) -> str:
    changed = folder / inside.name
    changed.write_text(mutant.text())
    made = changed.with_suffix(".o")
    if not ran([compiler, *FLAGS, f"-I{ROOT / 'csrc'}", "-c", str(changed), "-o", str(made)], 120):
        return "refused"
    core = linked(made, inside)
    for name, *arguments in COMMANDS:
        program = folder / name
        if not ran([compiler, "-pthread", str(BUILD / f"{name}.o"), *core, "-o", str(program)], 120):
            return "refused"
        if not ran([str(program), *arguments], LIMIT_S):
            return name
    return python_judges.verdict(core, folder, compiler) or "survived"


def prepare(compiler: str) -> None:
    """The core and its tests, unchanged: objects to link."""
    BUILD.mkdir(parents=True, exist_ok=True)
    core = [f for f in sorted((ROOT / "csrc").glob("*/*.cc")) if f.parent.name != "bindings"]
    core = [f for f in core if f.name not in ("v3.cc", "v4.cc", "fp16.cc")]
    sources = [(f, (CORE / f.relative_to(ROOT / "csrc")).with_suffix(".o")) for f in core]
    for name, *_ in COMMANDS:
        source = TESTS / (f"fuzz/{name.removeprefix('fuzz_')}.cc" if name.startswith("fuzz_") else f"{name}.cc")
        sources.append((source, BUILD / f"{name}.o"))
    flags = [*FLAGS, f"-I{ROOT / 'csrc'}", f"-I{TESTS}"]

    def build(source: Path, made: Path) -> None:
        if made.exists() and made.stat().st_mtime > source.stat().st_mtime:
            return
        made.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([compiler, *flags, "-c", str(source), "-o", str(made)], check=True)
        if source.parent.name == "fuzz":
            replay = made.with_suffix(".replay.o")
            subprocess.run([compiler, *flags, "-c", str(TESTS / "fuzz/replay.cc"), "-o", str(replay)], check=True)
            subprocess.run(["ld", "-r", str(made), str(replay), "-o", f"{made}.both"], check=True)
            Path(f"{made}.both").rename(made)

    with ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(build, *zip(*sources, strict=True)))


def main() -> int:
    """Prints each survivor; returns 0, as what survives is to be judged."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.core", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--compiler", default="c++")
    args = parser.parse_args()
    files = args.files or [*(ROOT / "csrc/interpreter").glob("*.cc"), *(ROOT / "csrc/health").glob("*.cc")]
    prepare(args.compiler)
    unchanged = [str(o) for o in sorted(CORE.rglob("*.o"))]
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        if wrong := python_judges.verdict(unchanged, Path(folder), args.compiler):
            print(f"without a mutant, {wrong} fails")
            return 1
    every = [m for file in sorted(files) for m in mutants(file.resolve())]
    chosen = random.Random(args.seed).sample(every, min(args.sample, len(every)))
    verdicts: dict[str, int] = {}
    until_s = time.monotonic() + args.seconds

    def judged(mutant: Mutant) -> str | None:
        return verdict(mutant, args.compiler) if time.monotonic() < until_s else None

    with ThreadPoolExecutor(JOBS) as pool:
        for number, (mutant, found) in enumerate(zip(chosen, pool.map(judged, chosen), strict=True), 1):
            if found is None:
                print("the time is over")
                break
            verdicts[found] = verdicts.get(found, 0) + 1
            print(f"{number} {found}: {mutant}", flush=True)
    print(f"{sum(verdicts.values())} of {len(every)} mutants: {verdicts}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
