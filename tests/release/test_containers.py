"""Ranks run where a container's defaults hold: without root, with 64 MB in /dev/shm, with a filter of system calls."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.release.filtered import DOCKER, OTHERS

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
FILTER = str(HERE / "filtered.py")
RUN = [sys.executable, "-m", "ringtree.cli", "run", "-n", "2", str(HERE / "all_calls.py")]
SPAWN = [sys.executable, str(HERE / "all_calls.py")]

filters = pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter knows the numbers of x86-64")
mounts = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="to mount another /dev/shm needs root and unshare"
)


def output(words: list[str], **options: object) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def has_all(printed: str) -> bool:
    return "spawned ranks have all" in printed or all(f"rank {rank} has all" in printed for rank in (0, 1))


@filters
@pytest.mark.parametrize(
    ("refused", "words"),
    [("docker", RUN), ("docker,pidfd_open,sched_setaffinity", RUN), ("docker,memfd_create", SPAWN)],
)
def test_ranks_have_all_calls_under_a_filter(refused: str, words: list[str]) -> None:
    assert has_all(output([sys.executable, FILTER, refused, *words]))


@filters
@pytest.mark.parametrize("name", ["docker", *OTHERS])
def test_the_filter_refuses(name: str) -> None:
    number = {**DOCKER, **OTHERS, "docker": DOCKER["process_vm_readv"]}[name]
    asked = f"import ctypes; c = ctypes.CDLL(None, use_errno=True); print(c.syscall({number}, 0, 0, 0, 0, 0, 0))"
    asked += "; print(ctypes.get_errno())"
    assert output([sys.executable, FILTER, name, sys.executable, "-c", asked]).split() == ["-1", "1"]


@filters
@mounts
def test_without_any_shared_memory_one_line_names_the_remedy() -> None:
    words = [sys.executable, FILTER, "memfd_create", *SPAWN]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o ro tmpfs /dev/shm && exec "$@"', "sh", *words],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert "no shared memory: memfd_create was refused" in done.stderr
    assert "let the container's seccomp profile allow memfd_create" in done.stderr


@mounts
@pytest.mark.parametrize(("size", "words"), [("64M", RUN), ("4K", SPAWN)])
def test_a_small_dev_shm_is_enough(size: str, words: list[str]) -> None:
    mounted = f'mount -t tmpfs -o size={size} tmpfs /dev/shm && exec "$@"'
    assert has_all(output(["unshare", "-m", "sh", "-c", mounted, "sh", *words]))


@mounts
def test_ranks_need_no_root(tmp_path: Path) -> None:
    """As a user without rights, in a user namespace of its own."""
    asked = ["unshare", "--user", "--map-user=65534"]
    if subprocess.run([*asked, "true"], capture_output=True).returncode:
        pytest.skip("this machine allows no user namespace")
    assert has_all(output([*asked, *RUN], cwd=tmp_path))
