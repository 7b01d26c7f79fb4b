"""SHA-256 is Python's, whichever of its modules has it."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest

from ringtree.ir.digest import sha256

ABSENT = """
import sys
sys.modules.update(dict.fromkeys({absent!r}))
from ringtree.ir.digest import sha256
state = sha256(b"ring")
state.update(b"tree")
print(state.hexdigest(), "hashlib" in sys.modules)
"""


def test_it_is_hashlibs() -> None:
    for data in (b"", b"ringtree", bytes(range(256)) * 99):
        assert sha256(data).digest() == hashlib.sha256(data).digest()


@pytest.mark.parametrize(("absent", "slow"), [((), False), (("_sha2", "_sha256"), True)])
def test_where_python_lacks_the_small_module_hashlib_serves(absent: tuple[str, ...], slow: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ABSENT.format(absent=absent)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [hashlib.sha256(b"ringtree").hexdigest(), str(slow)]
