"""The processor by Linux's description of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ringtree.runtime.linux import on_a_mesh

CORE = "processor\t: {n}\nmodel name\t: {name}\nflags\t\t: fpu {flags} sse2\n\n"
PROCESSORS = {
    "a server": ("Intel(R) Xeon(R) Platinum 8592+", "avx512f", True),
    "a server of a cloud, without its number": ("Intel(R) Xeon(R) Processor", "avx512f amx_bf16", True),
    "a server with a ring": ("Intel(R) Xeon(R) CPU E5-2680 v4", "avx2", False),
    "a desktop": ("11th Gen Intel(R) Core(TM) i7-11700", "avx512f", False),
    "another maker's": ("AMD EPYC 9R14", "avx512f", False),
}


@pytest.mark.parametrize("kind", PROCESSORS)
def test_a_mesh_joins_the_cores_of_intels_servers(kind: str, tmp_path: Path) -> None:
    name, flags, expected = PROCESSORS[kind]
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("".join(CORE.format(n=n, name=name, flags=flags) for n in range(2)))
    assert on_a_mesh(str(tmp_path)) is expected


def test_a_machine_that_does_not_say_has_none(tmp_path: Path) -> None:
    assert not on_a_mesh(str(tmp_path))
