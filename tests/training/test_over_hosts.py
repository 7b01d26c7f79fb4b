"""`ringtree train` by ranks on two hosts: its bytes between hosts are those of the formulas."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.runtime.hosts.conftest import made_lab
from tests.runtime.hosts.lab import Lab
from tests.runtime.hosts.launched import Launched

pytestmark = pytest.mark.slow
SMALL = ("--steps", "3", "--width", "32", "--layers", "4", "--sequence", "16")
LAYOUTS = {
    "--dp 4": ["all_reduce data"],
    "--dp 4 --zero 1": ["all_reduce data", "broadcast data"],
    "--dp 4 --zero 2": ["all_gather data", "reduce_scatter data"],
    "--dp 4 --zero 3": ["all_gather data", "reduce_scatter data"],
    "--dp 2 --tp 2": ["all_reduce data"],
    "--dp 2 --cp 2": ["all_reduce data"],
    "--tp 4": ["all_reduce tp"],
    "--tp 4 --sp": ["all_gather tp", "reduce_scatter tp", "all_reduce tp"],
    "--cp 4": ["send cp", "all_reduce data"],
    "--cp 4 --context ulysses": ["all_to_all cp", "all_reduce data"],
    "--ep 4 --experts 4": ["all_to_all_v ep", "all_reduce data"],
    "--pp 2 --dp 2": ["send pp"],
    "--pp 4 --schedule gpipe": ["send pp"],
    "--dp 4 --async-staleness 1": ["send dp"],
}
"""The collectives of each layout that leave hosts, and over which axis."""
UNKNOWN = ("all_to_all_v ep", "send dp")
"""Those whose bytes depend on the data, or on who was first."""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    yield from made_lab()


@pytest.mark.parametrize("options", LAYOUTS)
def test_bytes_between_hosts_are_the_formulas(lab: Lab, options: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "ulysses" in options:
        monkeypatch.setenv("RINGTREE_ALGORITHM", "pairwise")  # for the small vectors here, bruck would be chosen
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    job = Launched("lab0:2,lab1:2", "-m", "ringtree.cli", "train", *options.split(), *SMALL, lab=lab)
    code, out, complaints = job.end()
    assert (code, complaints) == (0, []), out
    table = out.replace("[lab0:0] ", "").partition("bytes that left hosts")[2]
    rows = re.findall(r"^  (\w+ +\w+) +([\d,]+|-) +([\d,]+) *(\w*) +([\d,]+)$", table, re.MULTILINE)
    assert [re.sub(" +", " ", row[0]) for row in rows] == LAYOUTS[options], table
    for kind, formula, counted, beside, busiest in rows:
        if re.sub(" +", " ", kind) in UNKNOWN:
            assert formula == "-" and counted != "0"
        else:
            assert beside == "equal" and formula == counted
            assert number(counted) <= 2 * number(busiest) <= 1.01 * number(counted)  # both links are as busy


def number(text: str) -> int:
    return int(text.replace(",", ""))
