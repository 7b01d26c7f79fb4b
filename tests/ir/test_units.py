"""Three figures and a unit."""

from __future__ import annotations

import pytest

from ringtree.ir.units import bandwidth, count, duration, enumeration, line_rate, size


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0 s"), (1e-12, "0.001 ns"), (1e-9, "1 ns"), (1.2345e-7, "123 ns"), (9.9999e-7, "1 µs"), (1e-6, "1 µs"),
        (1.415e-3, "1.42 ms"), (0.99996, "1 s"), (59.94, "59.9 s"), (12345.6, "12346 s"), (-2e-6, "-2 µs"),
    ],
)  # fmt: skip
def test_durations(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected


@pytest.mark.parametrize(
    ("nbytes", "expected"),
    [
        (0, "0 B"), (8, "8 B"), (1000, "1000 B"), (1023, "1023 B"), (1024, "1 KiB"), (1448, "1.41 KiB"),
        (65536, "64 KiB"), (1048575, "1 MiB"), (2**40, "1 TiB"), (2**63, "8388608 TiB"),
    ],
)  # fmt: skip
def test_sizes(nbytes: int, expected: str) -> None:
    assert size(nbytes) == expected


def test_enumerations() -> None:
    assert [enumeration("abc"[:n]) for n in (1, 2, 3)] == ["a", "a and b", "a, b and c"]


def test_counts() -> None:
    assert [count(n, "rank") for n in (0, 1, 2)] == ["0 ranks", "1 rank", "2 ranks"]


def test_bandwidths_and_line_rates() -> None:
    """Powers of ten, as links are sold."""
    assert [bandwidth(b) for b in (450e9, 3.6e12, 12.5e6, 63.015e9, 0)] == [
        "450 GB/s", "3.6 TB/s", "12.5 MB/s", "63 GB/s", "0 B/s",
    ]  # fmt: skip
    assert [line_rate(b) for b in (50e9, 1.25e8, 2.5e11)] == ["400 Gb/s", "1 Gb/s", "2 Tb/s"]
