"""What a rank holds over 100,000 calls of ever-new sizes, 10,000 groups and 1,000 worlds: it must not grow.

    python -m tests.runtime.growth                       on 2 ranks (minutes)
    python -m tests.runtime.growth --ranks 4 --groups 1000 --sizes 0 --worlds 0

A table has what rank 0 held half way, when its caches are full, and at the end. The exit status is 1 where memory,
descriptors, mappings or threads of a rank grew by more than is stated in tests/runtime/growth/limits.py.
"""

from __future__ import annotations

import argparse
import sys
from datetime import date
from pathlib import Path

from ringtree.bench.machine import describe
from ringtree.files.replacing import replace_with_json
from tests.runtime.growth.limits import excess, grown_by, held, warm


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    parts = {"sizes": options.sizes, "groups": options.groups, "worlds": options.worlds}
    records = held(options.ranks, {name: number for name, number in parts.items() if number}, options.timeout_s)
    for record in records:
        looks, number = record["by_rank"][0], record["number"]
        print(f"{number:,} {record['part']}, rank 0 of {options.ranks}, half way and at the end:")
        for name, more in grown_by(looks).items():
            print(f"  {name:20} {warm(looks)[name]:>12,} {looks[-1][name]:>12,} {more:+12,}")
    if options.json:
        replace_with_json(
            options.json,
            {"machine": describe(), "date": f"{date.today():%d %B %Y}".lstrip("0"), "ranks": options.ranks,
             "parts": records},
        )  # fmt: skip
    wrong = excess(records)
    print("\n".join(wrong) or "nothing grew")
    return int(bool(wrong))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.runtime.growth", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2, help="of the world (default 2)")
    parser.add_argument("--sizes", type=int, default=100_000, help="calls of ever-new sizes (default 100,000)")
    parser.add_argument("--groups", type=int, default=10_000, help="made and closed (default 10,000)")
    parser.add_argument("--worlds", type=int, default=1_000, help="made and closed (default 1,000)")
    parser.add_argument("--timeout-s", type=float, default=1800.0, help="of all (default 1800)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep a record")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
