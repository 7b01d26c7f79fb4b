"""torchft's own tests of process groups and of its manager, with ringtree's group in the place of Gloo's."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("torchft", "parameterized"))),
    reason="no torchft: pip install torchft==0.2.0 parameterized",
)
WORDED = {
    '|process group not initialized)"': '|process group not initialized|rank 2 left the group)"',
    '(RuntimeError, "aborted")': '(RuntimeError, "aborted|rank 2 left the group")',
}
"""Gloo's words for a replica that has gone, which the tests look for, and ours beside them."""
SUITES = {
    # not test_gloo_timeout, which looks for Gloo's words as well; Baby groups are Gloo's in a process of their own
    "process_group_test": ("(gloo_apis and not baby) or NormalGloo or functional_coll or swallowing or managed", 20),
    "manager_integ_test": ("not cuda and not torchcomms", 7),
}
"""The tests that need no GPU, and how many pass."""


@pytest.mark.parametrize("suite", SUITES)
def test_it_passes(suite: str, tmp_path: Path) -> None:
    chosen, expected = SUITES[suite]
    (place,) = importlib.util.find_spec("torchft").submodule_search_locations or []  # type: ignore[union-attr]
    text = (Path(place) / f"{suite}.py").read_text()
    for gloos, both in WORDED.items() if suite == "process_group_test" else ():
        assert gloos in text
        text = text.replace(gloos, both)
    file = tmp_path / f"{suite}.py"
    file.write_text(text)
    (tmp_path / "in_place_of_gloo.py").write_text(
        "import torchft.process_group\n"
        "from ringtree.torch_backend.torchft import ProcessGroupRingtree\n"
        "torchft.process_group.ProcessGroupGloo = ProcessGroupRingtree\n"
    )
    words = ["-q", "-p", "in_place_of_gloo", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "-c", os.devnull]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "-k", chosen, str(file)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert re.search(rf"\b{expected} passed", done.stdout), done.stdout[-500:]
