"""A disk that is full before a checkpoint is whole: the error says so, and what was written of it leaves no trace."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

TRAIN = "ringtree train --width 32 --layers 2 --heads 4 --sequence 32 --batch 8 --steps 9 --checkpoint full/a --every 1"
MOUNTS = ["unshare", "--mount"]
"""A command whose file systems are its own."""


def test_a_full_disk_is_named_and_the_next_run_goes_on(tmp_path: Path) -> None:
    """A disk of 900 KB has room for one checkpoint."""
    if subprocess.run([*MOUNTS, "true"], capture_output=True).returncode:
        pytest.skip("file systems can be mounted by root only")
    (tmp_path / "full").mkdir()
    script = (
        f"mount -t tmpfs -o size=900k tmpfs full && {TRAIN}; echo code $?; ls -A full/a; "
        f"{TRAIN} --steps 1 --resume; echo code $?"
    )
    done = subprocess.run([*MOUNTS, "bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    _, rest, code = done.stdout.split("code ")
    assert "the checkpoint full/a/step-00000002 cannot be written: rank 0: " in done.stderr
    assert "bytes were left on the disk" in done.stderr
    assert rest.split()[:2] == ["1", "step-00000001"], done
    assert "resumed from full/a/step-00000001" in rest and code == "0\n", done
