"""Runs the programs of clients on Gloo and in its place, by turns, and writes the table docs/clients.md.

    python -m tests.torch_backend.clients                     all of them, in the environment of `make test-clients`
    python -m tests.torch_backend.clients -k Lightning        some; the table keeps the others' rows

The exit status is 1 where a program fails on either, or gives other results. Gloo itself fails or hangs now and then: a
start on it is repeated up to GLOO_STARTS times, and the table has how often it failed; one on ringtree is not.
"""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from tests.torch_backend.clients.jobs import CLIENTS, Client, run

GLOO_STARTS = 3
TABLE = Path(__file__).parents[3] / "docs" / "clients.md"
HEAD = """# Clients

<!-- written by make test-clients -->

Programs as users of these libraries write them (`tests/torch_backend/clients/programs`), which ask for Gloo or leave
the choice to the library, here on two ranks: on Gloo, and with `RINGTREE_REPLACES=gloo`. Losses are compared to the
bit. The ratio is the program's time on ringtree over that on Gloo, from its first line to its last, the median of
three turns or more; models are so small that starting and computing is most of it. A start that fails on Gloo itself
is repeated, and counted. Ray Train, torchft, vLLM and SGLang have tests of their own
([ray.md](ray.md), [pytorch.md](pytorch.md#supported), [vllm.md](vllm.md), [sglang.md](sglang.md)).
FSDP of Accelerate, of the Trainer and of Lightning is not here: these versions have none on CPUs; FSDP2 of torch
itself is in [pytorch.md](pytorch.md#supported). torchtune's recipes for several ranks stop at two calls that only a GPU
answers; here those two do nothing. Its program lasts half a second: starting ringtree takes 0.15 s of it, and a full
garbage collection of Python, which our imports bring forward into it, 0.2 s.

| client | versions | on Gloo | on ringtree | ratio |
| --- | --- | --- | --- | ---: |
"""


def versions(client: Client) -> str:
    """The versions of a client's packages."""
    found = []
    for name in client.packages:
        try:
            found.append(f"{name} {version(name).split('+')[0]}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join(found)


def tried(client: Client, replaces: str) -> tuple[dict[str, Any], str]:
    """A program's findings, or the last line of why there are none."""
    try:
        return run(client, replaces), ""
    except RuntimeError as error:
        lines = [line for line in str(error).splitlines() if "Error" in line or "ended" in line]
        return {}, (lines or [str(error)])[-1].strip()[:160]


def row(client: Client, turns: int) -> tuple[str, bool]:
    """A row of the table, and whether it is as it should be."""
    ratios, verdict, fine, refusals, same = [], "", True, 0, True
    for _ in range(turns):
        for _ in range(GLOO_STARTS):
            on_gloo, refused = tried(client, "")
            if not refused:
                break
            refusals += 1
        ours, failed = tried(client, "gloo")
        if refused or failed:
            fine = False  # a client that fails on Gloo shows nothing
            verdict = f"{refused or 'runs'} | {failed or 'runs'}".replace("\n", " ")
            break
        ratios.append(ours.pop("took_s") / on_gloo.pop("took_s"))
        served = ours.pop("serving") == "ringtree" and on_gloo.pop("serving") == "torch"
        same = same and ours == on_gloo
        fine = fine and served and same
        runs = f"runs; {refusals} of {refusals + len(ratios)} starts failed" if refusals else "runs"
        verdict = f"{runs} | {'the same' if same else 'other'} results{', not served' * (not served)}"
    ratio = f"{median(ratios):.2f}" if len(ratios) > 2 else ""
    return f"| {client.name} | {versions(client)} | {verdict} | {ratio} |", fine


def kept() -> dict[str, str]:
    """The rows that the table has, by the client's name."""
    rows = [line for line in TABLE.read_text().splitlines() if line.startswith("| ")] if TABLE.exists() else []
    return {line.split(" | ")[0].removeprefix("| "): line for line in rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", default="", metavar="PART", help="only clients with this in their name, and their rows")
    parser.add_argument("--turns", type=int, default=3, help="starts on either (default 3)")
    args = parser.parse_args()
    rows, all_fine = kept(), True
    for client in CLIENTS:
        if args.k in client.name:
            rows[client.name], fine = row(client, args.turns)
            all_fine = all_fine and fine
            print(rows[client.name], flush=True)
    TABLE.write_text(HEAD + "".join(f"{rows[client.name]}\n" for client in CLIENTS if client.name in rows))
    return 0 if all_fine else 1


if __name__ == "__main__":
    sys.exit(main())
