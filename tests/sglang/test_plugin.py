"""The plug-in, as SGLang loads it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.sglang.jobs import SETTINGS

ASKED = """
import torch
from sglang.srt.utils import common
common.cpu_has_amx_support = lambda: True  # what a CPU with AMX would answer
from sglang.srt.plugins import load_plugins
load_plugins()
from torch.distributed import distributed_c10d as c10d
from sglang.srt.distributed import parallel_state
print(parallel_state.is_shm_available(torch.bfloat16, 2, 2), hasattr(c10d._new_process_group_helper, "replaced"))
"""


@pytest.mark.sglang
@pytest.mark.parametrize(
    ("plugins", "found"),
    [("ringtree", "False True"), ("another, ringtree", "False True"), ("another", "True False"), ("", "True False")],
)
def test_sglang_turns_to_groups_where_the_plug_in_is_named(plugins: str, found: str) -> None:
    own = os.environ | SETTINGS | {"SGLANG_PLUGINS": plugins}
    done = subprocess.run([sys.executable, "-c", ASKED], env=own, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == found, done.stderr
