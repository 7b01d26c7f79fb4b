"""`ringtree train` by ranks on two hosts: its bytes between hosts are those of the formulas."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.runtime.hosts.conftest import made_lab
from tests.runtime.hosts.lab import Lab

pytestmark = pytest.mark.slow
PORT = 29560
LAYOUTS = [
    (("--dp", "4"), ["all_reduce data"]),
    (("--dp", "2", "--tp", "2"), ["all_reduce data"]),
    (("--pp", "2", "--dp", "2"), ["send pp"]),
    (("--dp", "4", "--zero", "3"), ["all_gather data", "reduce_scatter data"]),
]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    yield from made_lab()


@pytest.mark.parametrize(("options", "crossing"), LAYOUTS, ids=[" ".join(o) for o, _ in LAYOUTS])
def test_bytes_between_hosts_are_the_formulas(lab: Lab, options: tuple[str, ...], crossing: list[str]) -> None:
    port = PORT + [layout for layout, _ in LAYOUTS].index(options)
    running = [
        subprocess.Popen(
            [*lab.command(rank // 2), sys.executable, "-m", "ringtree.cli", "train", *options, "--steps", "3"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ
            | {
                "OMPI_COMM_WORLD_RANK": str(rank),
                "OMPI_COMM_WORLD_SIZE": "4",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
                "PMIX_NAMESPACE": f"lab-{port}@1",
                "RINGTREE_ADDRESS": f"{lab.address(0)}:{port}",
                "RINGTREE_TIMEOUT": "60",
                "OMP_NUM_THREADS": "1",
            },
        )
        for rank in range(4)
    ]
    try:
        shown = [process.communicate(timeout=200)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    if "cannot meet" in shown[0]:
        pytest.skip("PyTorch's process group starts ranks on one host only")
    assert [process.returncode for process in running] == [0] * 4, shown
    table = shown[0].partition("bytes that left hosts")[2]
    rows = re.findall(r"^  (\w+ +\w+) +([\d,]+) +([\d,]+) +(\w+) +([\d,]+)$", table, re.MULTILINE)
    assert [re.sub(" +", " ", row[0]) for row in rows] == crossing
    for _, formula, counted, beside, busiest in rows:
        assert beside == "equal" and formula == counted
        assert int(busiest.replace(",", "")) * 2 == int(counted.replace(",", ""))  # both links are equally busy
