"""The list of devices of nccl-tests: ranks that cannot be, and ranks that have no line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.nccl.test_nccl_tests import log_of

ROW = "1024 256 float sum -1 50 0.02 0.04 0 50 0.02 0.04 0\n"


def listed(ranks: Iterable[int]) -> str:
    return "".join(f"#  Rank {r:2} Group  0 Pid 47 on node device {r % 8} [0x1b] NVIDIA H100\n" for r in ranks)


def as_json(ranks: Iterable[int]) -> str:
    names = {"hostname": "node", "device": 0, "device_hex": "0x1b", "device_info": "H100"}
    side = {"time": 50.0, "alg_bw": 0.02, "bus_bw": 0.04}
    row = {"size": 1024, "count": 256, "type": "float", "redop": "sum", "root": -1, "out_of_place": side}
    return json.dumps({"config": {"devices": [{"rank": r} | names for r in ranks]}, "results": [row]})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (listed([*range(7), 999_999_999]) + ROW, "line 8: rank '999999999'; expected a whole number of 0 to 1048575"),
        (as_json([0, -5]), "rank '-5'; expected a whole number of 0 to 1048575"),
        (as_json([0, 1 << 20]), "rank '1048576'; expected a whole number of 0 to 1048575"),
        (listed([*range(7), 99]) + ROW, "line 1: the list of devices lacks ranks 7 to 98; expected a line for each"),
        (as_json([0, 2, 1000]), "the list of devices lacks ranks 1, 3 to 999; expected a line for each"),
    ],
)
def test_ranks_that_cannot_be_are_refused(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        log_of(tmp_path, text)


def test_lines_that_the_list_lost_are_noted(tmp_path: Path) -> None:
    log = log_of(tmp_path, listed([0, 1, 4, 5, 7]) + ROW)
    assert log.ranks == 8 and "line 1: the list of devices lacks ranks 2 to 3, 6" in log.inferred
    assert not any("lacks" in note for note in log_of(tmp_path, listed(range(8)) + ROW).inferred)


@pytest.mark.parametrize("ranks", [4, 8, 16])
def test_more_ranks_in_nccls_lines_than_in_the_list_are_noted(tmp_path: Path, ranks: int) -> None:
    info = f"node:1:2 [0] NCCL INFO comm 0x5 rank 0 nRanks {ranks} nNodes 2 localRanks 8 localRank 0 MNNVL 0\n"
    notes = [note for note in log_of(tmp_path, listed(range(8)) + info + ROW).inferred if "NCCL's lines" in note]
    assert notes == ["NCCL's lines have 16 ranks, the list of devices 8: is the log of one run?"] * (ranks == 16)
