"""The variables RINGTREE_*: what a launcher says of them before it starts ranks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ringtree.runtime import settings


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("RINGTREE_TIMEOUT", "soon", "RINGTREE_TIMEOUT is 'soon'; expected a positive number of seconds"),
        ("RINGTREE_CONNECTIONS", "many", "RINGTREE_CONNECTIONS is 'many': expected 0 to 15"),
        ("RINGTREE_SINGLE_COPY", "never", "RINGTREE_SINGLE_COPY is 'never': expected 1, or 0 to stage all messages"),
        ("RINGTREE_WIRE", "pigeon", "RINGTREE_WIRE is 'pigeon': expected one of tcp, ucx"),
        ("RINGTREE_DEVICE_ENGINE", "shm", "RINGTREE_DEVICE_ENGINE is 'shm'; expected one of cuda, nccl"),
        ("RINGTREE_NCCL_CARRIER", "tcp", "RINGTREE_NCCL_CARRIER is 'tcp'; expected one of nccl, gloo, staged"),
        (
            "RINGTREE_REPLACES",
            "gloo,nccl",
            "RINGTREE_REPLACES is 'gloo,nccl': ringtree takes the place of \"gloo\" only",
        ),
        ("RINGTREE_ADDRESS", "nowhere", "RINGTREE_ADDRESS"),
        ("RINGTREE_ALGORITHM", "0", "RINGTREE_ALGORITHM is '0': no algorithm '0': expected one of ring"),
        ("RINGTREE_DEBUG", "zz", "RINGTREE_DEBUG is 'zz': expected info, or trace"),
        ("RINGTREE_INTERFACE", "eth99", "RINGTREE_INTERFACE is 'eth99'"),
    ],
)
def test_a_value_that_is_none_is_refused(name: str, value: str, expected: str) -> None:
    with pytest.raises(ValueError, match=name) as refused:
        settings.check({"HOME": "/", name: value})
    assert expected in str(refused.value)


def test_a_misspelt_name_is_named_with_the_nearest() -> None:
    env = {"RINGTREE_TIMOUT": "3", "RINGTREE_WIRE": "tcp", "RINGTREE_PARTY": "at eight"}
    assert settings.check(env) == ["nothing reads RINGTREE_TIMOUT; is it RINGTREE_TIMEOUT?"]


def test_the_page_of_variables_has_each() -> None:
    page = (Path(__file__).parents[2] / "docs" / "communicator.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith(f"| `{settings.PREFIX}")]
    shown = re.findall(f"{settings.PREFIX}(\\w+)", "".join(rows))
    assert sorted(shown) == sorted(settings.NAMES)


def test_no_rank_starts_where_a_value_is_wrong(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("print('started')")
    words = [sys.executable, "-m", "ringtree.cli", "run", "-n", "2", str(program)]
    done = subprocess.run(
        words, env={**os.environ, "RINGTREE_TIMEOUT": "-1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == "ringtree run: RINGTREE_TIMEOUT is '-1'; expected a positive number of seconds\n"
