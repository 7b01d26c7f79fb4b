"""The error of sums of 16-bit floats by each algorithm, against exact arithmetic.

    python -m benchmarks.sum_errors                  the table of docs/types.md: bfloat16, 2 to 16 ranks
    python -m benchmarks.sum_errors --dtype float16
    python -m benchmarks.sum_errors --drawn normal

Each rank, a thread of this process, contributes 4096 numbers; the sum of each element is compared with the exact one
(math.fsum of the contributions). Errors are in units of the last place (ulp) of the type at the exact sum, or with
`--drawn normal`, where sums nearly cancel, at the sum of the magnitudes: mean / greatest.
"""

from __future__ import annotations

import argparse
from math import fsum
from typing import Any

import numpy as np
from ml_dtypes import bfloat16, finfo

import ringtree
from ringtree.algorithms import serving

COUNT = 4096
RANKS = (2, 3, 4, 6, 8, 11, 16)
DTYPES: dict[str, Any] = {"bfloat16": bfloat16, "float16": np.float16}
OPTIONS: dict[str, dict[str, Any]] = {
    '`accumulate="float32"`, `deterministic="rank_order"`': {"accumulate": "float32"},
    '`deterministic="ranks"`': {"deterministic": "ranks"},
}
Values = np.ndarray[Any, Any]


def contribution(rank: int, dtype: str, drawn: str) -> Values:
    """What a rank adds: numbers from 0 to 1, or normal ones."""
    random = np.random.default_rng([2026, rank])
    values = random.random(COUNT) if drawn == "uniform" else random.normal(size=COUNT)
    return values.astype(DTYPES[dtype])


def sums(comm: ringtree.Communicator, dtype: str, drawn: str) -> dict[str, Values]:
    """The sums by each algorithm, and with each option."""
    x = contribution(comm.rank, dtype, drawn)
    found = {name: comm.all_reduce(x, algorithm=name) for name in serving("all_reduce")}
    found |= {option: comm.all_reduce(x, **given) for option, given in OPTIONS.items()}
    found["the average, with `accumulate`"] = comm.all_reduce(x, "avg", accumulate="float32")
    return found


def errors(dtype: str, drawn: str, ranks: int) -> dict[str, tuple[float, float]]:
    """Mean and greatest error in ulps."""
    rows = [contribution(rank, dtype, drawn).astype(np.float64) for rank in range(ranks)]
    exact = np.array([fsum(column) for column in zip(*rows, strict=True)])
    sizes = exact if drawn == "uniform" else np.sum(np.abs(rows), axis=0)
    found: dict[str, tuple[float, float]] = {}
    for name, total in ringtree.spawn(sums, ranks, dtype, drawn, threads=True)[0].items():
        by = ranks if "average" in name else 1
        ulp = 2.0 ** (np.floor(np.log2(np.abs(sizes) / by)) - finfo(DTYPES[dtype]).nmant)
        off = np.abs(total.astype(np.float64) - exact / by) / ulp
        found[name] = float(off.mean()), float(off.max())
    return found


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    parser.add_argument("--drawn", choices=("uniform", "normal"), default="uniform")
    args = parser.parse_args()
    by_ranks = [errors(args.dtype, args.drawn, ranks) for ranks in RANKS]
    print(f"| {args.dtype} | {' | '.join(f'{n} ranks' for n in RANKS)} |")
    print("| --- |" + " --- |" * len(RANKS))
    for name in sorted(by_ranks[-1], key=lambda name: by_ranks[-1][name], reverse=True):
        print(f"| {name} | " + " | ".join("{:.2f} / {:.1f}".format(*found[name]) for found in by_ranks) + " |")


if __name__ == "__main__":
    main()
