"""all_reduce by named algorithms over hosts: predicted, simulated and measured, in one table (root; see over_hosts).

    python -m benchmarks.predicted_over_hosts --json benchmarks/predicted_over_hosts.json
    python -m benchmarks.predicted_over_hosts --delay 0.001 --rates 200mbit --algorithms candidates
    python -m benchmarks.predicted_over_hosts --again benchmarks/predicted_over_hosts.json

Hosts are namespaces of this machine. The ranks measure their network as `ringtree tune` does; by that `price` predicts
the time of each algorithm, cut as calls over hosts cut it, and `simulate` plays it. Then all algorithms and sizes are
called by turns. A time is until the last rank is done, from the barrier; shown is the median over all turns, and beside
it how far the middle half of the turns spreads. `candidates` are the calls' own choice, and the quickest
candidate of each other algorithm between hosts as predicted. `--again` measures nothing: it predicts and simulates what
a record has measured by the code as it is now, from the places, networks and cuts in the record, and writes the record
again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from ringtree.cli.arguments.hosts import link_rate
from tests.runtime.hosts.lab import Lab

ROOT = Path(__file__).parent.parent
ALGORITHMS = ("ring", "double_tree", "hierarchical", "torus")
CANDIDATES = "candidates"
MOST_CANDIDATES = 5
NEAR = 0.25
WARMUP = 1
PORT = 29130
BURST_S, LEAST_BURST, MOST_BURST = 2e-3, 24_000, 250_000
"""A link that was idle lets pass at once what moves in two milliseconds: more would be a faster link, and with less tbf
loses what it owes while its timer is late: a ring at 500 Mbit/s then took 1.4 times as long."""


def size(text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20}
    return int(text[:-1]) * units[text[-1].upper()] if text[-1].upper() in units else int(text)


def different(found: tuple[Any, ...]) -> list[Any]:
    """The first candidate of each algorithm between hosts, and of those that know no hosts; the quickest few."""
    first: dict[str, Any] = {}
    for candidate in found:
        first.setdefault(dict(candidate.steps.options).get("outer", candidate.algorithm), candidate)
    return list(first.values())[:MOST_CANDIDATES]


def place_as_json(where: Any) -> dict[str, Any]:
    """What predictions need beside the network."""
    from ringtree.runtime.tuned import as_json

    memory = where.memory
    sizes = {"cores": memory.cores, "slots": memory.slots, "slot_bytes": memory.slot_bytes}
    return {"host_of": where.host_of, "turns": where.turns, **sizes, "memory": as_json(memory.parameters)}


def place_from(place: dict[str, Any], network: dict[str, Any]) -> Any:
    """The hosts of `place_as_json` with a network of the record."""
    from ringtree.price import Hosts, SharedMemory
    from ringtree.runtime.tuned import network_from, parameters_from

    between = network_from(network, network["source"])
    memory = SharedMemory(
        place["cores"], place["slots"], place["slot_bytes"], parameters_from(place["memory"], "as recorded")
    )
    links = between.latency_s, between.bandwidth_Bps
    return Hosts(tuple(place["host_of"]), memory, *links, place["turns"], between.source, between.message_s)


def tuning(cut: str) -> Any:
    """The CallTuning whose text this is."""
    from ringtree.plan.tuning import CallTuning

    options: list[tuple[str, int | str]] = []
    counts: dict[str, Any] = {}
    for word in cut.split(", ") if cut != "not cut" else ():
        if found := re.fullmatch(r"(split|pipeline|channels)\((\d+)\)", word):
            counts[found[1]] = int(found[2])
        elif word == "many_source":
            counts[word] = True
        else:
            name, value = word.split("=")
            options.append((name, int(value) if value.isdigit() else value))
    steps = CallTuning(tuple(options), **counts)
    assert str(steps) == cut, (str(steps), cut)
    return steps


def again(record: dict[str, Any]) -> None:
    """Predicts and simulates the rows of a record as the code does now. What was measured stays."""
    from ringtree.price import over_hosts, seconds
    from ringtree.simulate import Job, play

    for rate, rows in record["rows"].items():
        wheres = [place_from(*given) for given in zip(record["places"][rate], record["networks"][rate], strict=True)]
        for row in rows:
            ranks, nbytes = len(wheres[0].host_of), row["nbytes"]
            schedule = tuning(row["cut"]).apply(row["algorithm"], "all_reduce", ranks)
            row["predicted_s"] = median(seconds(schedule, where, nbytes) for where in wheres)
            topologies = [over_hosts.topology(where, nbytes) for where in wheres]
            row["simulated_s"] = median(play([Job(schedule, nbytes)], topology).time_s for topology in topologies)
    record["settings"]["predicted"] = (
        "again, by the code that this record lies beside, from the recorded places, networks and cuts; of a row that "
        "the runs cut differently, from the first run's cut"
    )


def often(nbytes: int) -> int:
    """The calls of a turn: short ones more often."""
    return min(max((1 << 20) // nbytes, 1), 8)


def rank(asked: dict[str, Any]) -> None:
    """Measures and, on rank 0, prints a JSON line: the network, and a row for each algorithm and size."""
    import numpy as np

    import ringtree
    from ringtree.bench.network import measure_network
    from ringtree.plan import candidates_over_hosts, choose_over_hosts, quickest_as
    from ringtree.price import over_hosts, seconds
    from ringtree.simulate import Job, play

    comm = ringtree.init()
    network = comm.broadcast_object(measure_network(comm, "measured in this run"))
    own = {"latency_s": network.latency_s, "bandwidth_Bps": network.bandwidth_Bps, "message_s": network.message_s}
    where = replace(comm.where, **own)
    rows, calls = [], []
    for nbytes in asked["sizes"]:
        named = asked["algorithms"]
        if named == [CANDIDATES]:
            chosen = choose_over_hosts("all_reduce", where, None, nbytes)
            found = different(candidates_over_hosts("all_reduce", where, None, nbytes))
        else:
            chosen, found = None, tuple(quickest_as(name, "all_reduce", where, None, nbytes) for name in named)
        for candidate in found:
            schedule = candidate.steps.apply(candidate.algorithm, "all_reduce", comm.size)
            simulated = (
                play([Job(schedule, nbytes)], over_hosts.topology(where, nbytes)).time_s if comm.rank == 0 else 0.0
            )
            rows.append(
                {
                    "algorithm": candidate.algorithm,
                    "label": candidate.label,
                    "cut": str(candidate.steps),
                    "chosen": bool(chosen) and candidate is found[0],
                    "nbytes": nbytes,
                    "predicted_s": seconds(schedule, where, nbytes),
                    "simulated_s": simulated,
                    "measured_s": [],
                }
            )
            calls.append((np.ones(nbytes // 4, np.float32), schedule))
    for turn in range(WARMUP + asked["turns"]):
        turns = [(r, call) for r, call in zip(rows, calls, strict=True) for _ in range(often(r["nbytes"]))]
        for row, (x, schedule) in turns:
            comm.barrier()
            began_s = time.perf_counter()
            out = comm.all_reduce(x, algorithm=schedule)
            took_s = time.perf_counter() - began_s
            assert (out == comm.size).all()
            last_s = float(comm.all_reduce(np.array([took_s]), "max")[0])
            if turn >= WARMUP:
                row["measured_s"].append(last_s)
    if comm.rank == 0:
        print(json.dumps({"network": asdict(network), "place": place_as_json(where), "rows": rows}), flush=True)
    comm.close()


def measured(given: argparse.Namespace, rate: str) -> dict[str, Any]:
    """What rank 0 of one run on new hosts prints."""
    asked = {
        "sizes": [size(text) for text in given.sizes.split(",")],
        "algorithms": given.algorithms.split(","),
        "turns": given.turns,
    }
    burst = min(max(round(link_rate(rate) * BURST_S), LEAST_BURST), MOST_BURST)
    with Lab(given.hosts, rate, burst=f"{burst}b", delay_s=given.delay) as lab:
        running = [
            subprocess.Popen(
                [*lab.command(r // given.ranks), sys.executable, "-m", "benchmarks.predicted_over_hosts", "--rank"]
                + [json.dumps(asked)],
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env={
                    **os.environ,
                    "RINGTREE_RANK": str(r),
                    "RINGTREE_WORLD_SIZE": str(given.hosts * given.ranks),
                    "RINGTREE_ADDRESS": f"{lab.address(0)}:{PORT}",
                },
            )
            for r in range(given.hosts * given.ranks)
        ]
        shown = [process.communicate(timeout=900)[0] for process in running]
    found: dict[str, Any] = json.loads(shown[0])
    return found


def joined(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of several runs at one rate, with all their turns; predictions are the medians over the runs."""
    rows = []
    for same in zip(*(run["rows"] for run in runs), strict=True):
        times_s = [t for row in same for t in row["measured_s"]]
        low_s, _, high_s = quantiles(times_s, n=4)
        row = {name: same[0][name] for name in ("algorithm", "label", "cut", "nbytes", "chosen")}
        row |= {name: median(r[name] for r in same) for name in ("predicted_s", "simulated_s")}
        rows.append(row | {"measured_s": median(times_s), "quartiles_s": [low_s, high_s], "turns": len(times_s)})
    return rows


def line(rate: str, row: dict[str, Any]) -> str:
    predicted, simulated, took = (row[f"{name}_s"] for name in ("predicted", "simulated", "measured"))
    low_s, high_s = row["quartiles_s"]
    cells = (
        rate,
        f"{row['nbytes'] >> 10} KiB",
        row["label"] + " (chosen)" * row["chosen"],
        row["cut"],
        *(f"{t * 1e3:.3g}" for t in (predicted, simulated, took)),
        f"{low_s * 1e3:.3g} to {high_s * 1e3:.3g}",
        f"{predicted / took:.2f}",
    )
    return f"| {' | '.join(cells)} |"


def show(rows: dict[str, list[dict[str, Any]]]) -> None:
    """Prints the table, and how many points are within 25 %."""
    names = "link bytes algorithm cut predicted,~ms simulated measured half~of~the~turns over~measured"
    print(f"| {' | '.join(names.split())} |".replace("~", " "))
    print("| --- | ---: | --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for rate, found in rows.items():
        for row in found:
            print(line(rate, row), flush=True)
    every = [row for found in rows.values() for row in found]
    for name in ("predicted", "simulated"):
        near = sum(abs(row[f"{name}_s"] / row["measured_s"] - 1) <= NEAR for row in every)
        print(f"\n{name} within {NEAR:.0%}: {near} of {len(every)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=2, help="of each host")
    parser.add_argument("--rates", default="50mbit,100mbit,200mbit", help="of each host's link, as tc writes it")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds of each frame between hosts")
    parser.add_argument("--sizes", default="256K,4M,16M")
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS), help=f"names, or {CANDIDATES}")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=3, help="runs at each rate, by turns")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--again", type=Path, metavar="FILE", help="measure nothing; predict a record's rows again")
    parser.add_argument("--rank", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.again:
        record = json.loads(given.again.read_text())
        again(record)
        show(record["rows"])
        given.again.write_text(json.dumps(record, indent=1) + "\n")
        return
    if given.rank:
        rank(given.rank)
        return
    rates = given.rates.split(",")
    runs: dict[str, list[dict[str, Any]]] = {rate: [] for rate in rates}
    for _ in range(given.rounds):
        for rate in rates:
            runs[rate].append(measured(given, rate))
            print(f"{rate}: load {os.getloadavg()[0]:.0f}", file=sys.stderr, flush=True)
    rows = {rate: joined(found) for rate, found in runs.items()}
    show(rows)
    if given.json:
        record = {
            "settings": {k: v for k, v in vars(given).items() if k not in ("json", "rank", "again")},
            "networks": {rate: [run["network"] for run in found] for rate, found in runs.items()},
            "places": {rate: [run["place"] for run in found] for rate, found in runs.items()},
            "rows": rows,
        }
        given.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
