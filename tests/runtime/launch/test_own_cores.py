"""The share of a machine's cores that a rank is bound to."""

from __future__ import annotations

from pathlib import Path

import pytest

from ringtree.runtime.launch import own_cores


def machine(root: Path, sockets: int, cores: int, threads: int, apart: bool) -> list[int]:
    """A tree as the kernel's, of sockets of so many cores; their threads numbered `apart`, after all cores, or side by
    side. Returns the numbers of all threads."""
    places = [(s, c, t) for s in range(sockets) for c in range(cores) for t in range(threads)]
    if apart:
        places.sort(key=lambda place: place[2])
    for number, (socket, core, _) in enumerate(places):
        folder = root / f"cpu{number}/topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{socket}\n")
        (folder / "core_id").write_text(f"{core}\n")
    return list(range(len(places)))


@pytest.mark.parametrize(
    ("apart", "ranks", "shares"),
    [
        (True, 2, [[0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]]),  # a socket each
        (True, 3, [[0, 1, 8, 9], [2, 3, 4, 10, 11, 12], [5, 6, 7, 13, 14, 15]]),
        (True, 8, [[n, n + 8] for n in range(8)]),
        (False, 8, [[2 * n, 2 * n + 1] for n in range(8)]),
        (True, 16, [[n // 2 + 8 * (n % 2)] for n in range(16)]),
        (True, 17, None),
    ],
)
def test_threads_of_a_core_are_one_ranks(
    apart: bool, ranks: int, shares: list[list[int]] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two sockets of four cores, with two threads each."""
    cores = machine(tmp_path, 2, 4, 2, apart)
    monkeypatch.setattr(own_cores, "SYSTEM", tmp_path)
    assert own_cores.shares(ranks, cores) == shares


def test_cores_that_the_kernel_does_not_describe_are_taken_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_cores, "SYSTEM", tmp_path)
    assert own_cores.shares(2, [3, 5, 6, 9]) == [[3, 5], [6, 9]]
