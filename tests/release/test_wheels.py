"""What `make wheels` built: installed in empty environments without a compiler, and run, by `make test-wheels`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from release.wheels import VERSIONS, interpreter

ROOT = Path(__file__).parent.parent.parent
WHEELS = sorted((ROOT / "dist").glob("*.whl"))
MOST_BYTES = 15_000_000
ARM_ROOT = "RINGTREE_AARCH64_ROOT"
"""The variable that names a folder with Debian's Python for arm64 (release/aarch64_root.sh makes it)."""

pytestmark = pytest.mark.wheels


def wheel(*marks: str) -> Path:
    """The one wheel whose name has these words."""
    found = [path for path in WHEELS if all(mark in path.name for mark in marks)]
    assert len(found) == 1, f"{marks}: {len(found)} of {[path.name for path in WHEELS]}; make wheels builds them"
    return found[0]


def run(*words: object, **env: str) -> subprocess.CompletedProcess[str]:
    """A command with these variables alone."""
    return subprocess.run([str(w) for w in words], env=env, capture_output=True, text=True, timeout=300)


def test_wheels_are_small() -> None:
    assert wheel("abi3", "x86_64") and all(path.stat().st_size < MOST_BYTES for path in WHEELS)


@pytest.mark.parametrize("version", [*VERSIONS, "3.13"])
def test_a_wheel_runs_ranks_where_there_is_no_compiler(version: str, tmp_path: Path) -> None:
    if not (python := interpreter(version)):
        pytest.skip(f"no Python {version} on this machine")
    tag = f"cp{version.replace('.', '')}-" if version in ("3.10", "3.11") else "abi3"
    subprocess.run([python, "-m", "venv", tmp_path], check=True)
    pip = [tmp_path / "bin" / "python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    subprocess.run([*pip, wheel(tag, "x86_64")], check=True)
    here = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}
    assert shutil.which("c++", path=here["PATH"]) is None
    program = Path(__file__).with_name("all_calls.py")
    spawned = run(tmp_path / "bin" / "python", program, **here)
    assert spawned.stdout == "spawned ranks have all\n", spawned.stderr
    started = run(tmp_path / "bin" / "ringtree", "run", "-n", "2", program, **here)
    assert sorted(started.stdout.splitlines()) == [f"[{rank}] rank {rank} has all" for rank in (0, 1)], started.stderr


def test_the_wheel_without_the_engine_proves_and_refuses_ranks(tmp_path: Path) -> None:
    shutil.unpack_archive(wheel("py3-none"), tmp_path, format="zip")
    assert not list(tmp_path.rglob("_native*.so"))
    here = {**os.environ, "PYTHONPATH": str(tmp_path)}
    asked = f"import ringtree; assert ringtree.__file__.startswith({str(tmp_path)!r}); ringtree.init()"
    done = run(sys.executable, "-S", "-c", paths(asked), **here, RINGTREE_RANK="0", RINGTREE_WORLD_SIZE="2")
    assert done.stderr.splitlines()[-1].startswith("RuntimeError: the native engine is not installed")
    proved = "import sys; from ringtree.cli import main; sys.exit(main('prove ring -n 8'.split()))"
    assert run(sys.executable, "-S", "-c", paths(proved), **here).returncode == 0


def paths(asked: str) -> str:
    """The program, with numpy and rich of this interpreter but without its own ringtree, which a .pth file finds."""
    return f"import sys; sys.path += {[path for path in sys.path if 'site-packages' in path]!r}; {asked}"


@pytest.mark.skipif(ARM_ROOT not in os.environ, reason=f"{ARM_ROOT} names no folder with Python for arm64")
def test_the_aarch64_wheel_runs_ranks_under_qemu(tmp_path: Path) -> None:
    root = Path(os.environ[ARM_ROOT])
    (python,) = (root / "usr" / "bin").glob("python3.??")
    version = python.name.removeprefix("python")
    tag = f"cp{version.replace('.', '')}-" if version in ("3.10", "3.11") else "abi3"
    words = ["--target", tmp_path, "--only-binary", ":all:", "--python-version", version]
    words += [x for tag in ("2_28", "2_34") for x in ("--platform", f"manylinux_{tag}_aarch64")]
    words += ["--platform", "manylinux_2_27_aarch64"]
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *words, wheel(tag, "aarch64")], check=True)
    ranks = [
        subprocess.Popen(
            ["qemu-aarch64-static", "-L", root, python, Path(__file__).with_name("all_calls.py")],
            env={
                "PYTHONPATH": str(tmp_path),
                "RINGTREE_RANK": str(rank),
                "RINGTREE_WORLD_SIZE": "2",
                "RINGTREE_JOB": tmp_path.name,
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    assert [rank.communicate(timeout=300)[0] for rank in ranks] == [f"rank {rank} has all\n" for rank in (0, 1)]
