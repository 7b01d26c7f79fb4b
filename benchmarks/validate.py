"""How near the predictions for clusters come to what others measured: published nccl-tests tables, size by size.

    python -m benchmarks.validate                   each system's medians, by both models, and percentiles over all
    python -m benchmarks.validate --sizes           each size too: measured beside predicted
    python -m benchmarks.validate aws_p5 --sizes    the systems whose file's name has that in it
    python -m benchmarks.validate --json FILE       write the figures

The tables are nobody's here: RINGTREE_DATA names the folder they lie in (default ../shared/data). What is compared is
the out-of-place time and bus bandwidth with those of the algorithm and protocol that NCCL picks, by our model of the
hardware, by NCCL's own, and by a naive line (naive_line.py). SYSTEMS names the hardware of each file, by its header,
with no figure of its own.

Nothing is fitted to a system it is judged on. Figures that nobody publishes are each taken from the table of another
system, as ELSEWHERE and the code state (nccl/tuning/settings.py, nccl/transport/figures.py).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median, quantiles

from benchmarks import naive_line
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.units import size
from ringtree.machines.catalogue import machine
from ringtree.machines.channels import Channels, Pattern
from ringtree.machines.clusters import Cluster
from ringtree.machines.nics import with_nics
from ringtree.nccl import transport, tuning
from ringtree.nccl.estimate import Estimate
from ringtree.nccl.files import nccl_tests
from ringtree.nccl.graphs import graphs as find_graphs
from ringtree.topology.fabrics import FABRICS

LARGE_bytes = 64 << 20
"""From here on bandwidth is compared."""
ELSEWHERE = {
    "aws-p5": "NVLS: what a head adds to a loop of shorter chunks, from another table of eight H100",
    "dgx-a100": "sends and receives: a block's rate and NVLink's share, from sendrecv of eight A100",
    "gcp-a3-high": "tcpx: what a hop with Simple costs, from the table of gcp-a3-mega",
    "gb200-nvl72": "NVLS: what each head beyond a board's eight adds to a loop, from a table of two racks",
    "rtx4090-pcie": "host memory: shares of PCIe links and a block's rate, from tables of RTX 2080 Ti and RTX 5090",
}
"""Figures that nobody publishes, by the machine they are judged on, and where they are from."""
GOALS = {"busbw_median": 0.07, "busbw_p90": 0.20, "time_median": 0.20}
PERCENTS = (50, 75, 90, 95)
MODELS = {"ours": "our model", "theirs": "NCCL's own", "naive": "naive line"}
"""The models that are compared, by the field of a `Point`."""


@dataclass(frozen=True)
class System:
    """A file, what it was measured on, and the collective. `gpus`: how many of a machine's; `nics`: other NICs than its
    own; `algorithm` and `protocol`: those that were forced, as in NCCL_ALGO and NCCL_PROTO."""

    file: str
    machine: str
    nodes: int = 1
    fabric: str = ""
    gpus: int = 0
    nics: tuple[int, float] = (0, 0.0)
    algorithm: str = ""
    protocol: str = ""
    note: str = ""
    collective: str = "all_reduce"

    @cached_property
    def cluster(self) -> Cluster:
        known = machine(self.machine)
        if self.gpus:
            known = known.part(range(self.gpus))
        if self.nics[0]:
            known = with_nics(known, *self.nics)
        return Cluster(known, self.nodes, FABRICS[self.fabric] if self.fabric else None)

    @cached_property
    def graphs(self) -> Mapping[Pattern, Channels]:
        return find_graphs(self.cluster)

    def considers(self, candidate: Estimate) -> bool:
        """Whether what was forced allows a candidate."""
        return all(
            not forced or name in forced.split(",")
            for forced, name in ((self.algorithm, candidate.algorithm), (self.protocol, candidate.protocol))
        )

    def predicted(self, nbytes: int) -> tuple[Estimate, Estimate]:
        """Estimates for NCCL's pick: our model's, and NCCL's own."""
        ours = transport.estimates(self.cluster, self.graphs, self.collective, nbytes)
        theirs = [e for e in tuning.estimates(self.cluster, self.graphs, self.collective, nbytes) if self.considers(e)]
        pick = theirs[0] if theirs else ours[0]
        return next(e for e in ours if (e.algorithm, e.protocol) == (pick.algorithm, pick.protocol)), pick


SYSTEMS = [
    System("aws_p5_1n_allreduce", "aws-p5"),
    System("b5_a100_2gpu_allreduce", "dgx-a100", gpus=2),
    System("b5_a100_2gpu_sendrecv", "dgx-a100", gpus=2, collective="send_recv"),
    System("b5_a100_4gpu_allreduce", "dgx-a100", gpus=4),
    System("coreweave_gb200_nvl72_1rack_allreduce", "gb200-nvl72"),
    System("cscs_gh200_2n_allreduce_ofi", "gh200x4", 2, "slingshot"),
    System("dstack_gcp_a3high_allgather", "gcp-a3-high", 2, "tcpx", note="or A3 Edge, by its header",
           collective="all_gather"),
    System("dstack_nebius_h100_2n_allreduce", "dgx-h100", 2, "infiniband"),
    System("gcp_a3high_2n_allgather", "gcp-a3-high", 2, "tcpx", collective="all_gather"),
    System("gcp_a3mega_2n_allreduce", "gcp-a3-mega", 2, "tcpxo", algorithm="ring,tree", protocol="simple",
           note="the plugin of 2024, by the files that its page lists, whose profile has no LL128"),
    System("gcp_a3ultra_2n_allgather", "gcp-a3-ultra", 2, "roce", collective="all_gather"),
    System("issue252_ring_8rank", "dgx-h100", 2, "infiniband", 4, (4, 25e9), "ring", note="NCCL_ALGO=RING"),
    System("issue309_h100_2n_dell_xe9680", "dgx-h100", 2, "infiniband"),
    System("issue309_h100_4n_vm", "dgx-h100", 4, "infiniband"),
    System("k8snccl_h100_2n_allreduce", "dgx-h100", 2, "infiniband", 0, (8, 25e9), "ring",
           note="NICs not named: its header reads them from the plateau, as a ring's"),
    System("oci_a100_8gpu_1n_point", "oci-gpu4"),
    System("rtx4090_2gpu_pcie_shm", "rtx4090-pcie", gpus=2),
]  # fmt: skip
"""The healthy ones. The two others are misconfigured, and for `ringtree explain`."""


@dataclass(frozen=True)
class Point:
    """A size of a system: times in seconds, and the shares by which they are off."""

    system: System
    nbytes: int
    measured_s: float
    ours: Estimate
    theirs: Estimate
    naive: Estimate
    bus_factor: float

    def busbw_GBps(self, time_s: float) -> float:
        return self.nbytes / time_s / 1e9 * self.bus_factor

    def time_error(self, predicted: Estimate) -> float:
        return predicted.time_s / self.measured_s - 1

    def busbw_error(self, predicted: Estimate) -> float:
        return self.measured_s / predicted.time_s - 1


def folder() -> Path:
    root = Path(__file__).parent.parent
    return Path(os.environ.get("RINGTREE_DATA", root.parent / "shared" / "data")) / "nccl_tests"


def points(system: System, tables: Path) -> list[Point]:
    log = nccl_tests.read(tables / f"{system.file}.csv")
    if log.collective != system.collective:
        sys.exit(f"{log.path}: of {log.collective}; expected {system.collective}, as in SYSTEMS")
    known = COLLECTIVES.get(log.collective)
    factor = known.bus_factor(system.cluster.ranks) if known else 1.0
    found = []
    for row in log.rows:
        ours, theirs = system.predicted(row.nbytes)
        naive = naive_line.estimate(system.cluster, system.collective, row.nbytes, factor)
        found.append(Point(system, row.nbytes, row.times_s[0], ours, theirs, naive, factor))
    return found


def figures(some: Iterable[Point], model: str = "ours") -> dict[str, float]:
    """Absolute errors as shares: medians and the 90th percentile, and how many there are of each."""
    times, large = errors(some, model)
    found = {"sizes": len(times), "time_median": median(times), "large_sizes": len(large)}
    if large:
        found["busbw_median"] = median(large)
        found["busbw_p90"] = percentile(large, 90)
    return {k: round(v, 4) for k, v in found.items()}


def errors(some: Iterable[Point], model: str) -> tuple[list[float], list[float]]:
    """Absolute errors, as shares, of the time at all sizes, and of bus bandwidth at the large ones."""
    some = list(some)
    times = [abs(p.time_error(getattr(p, model))) for p in some]
    return times, [abs(p.busbw_error(getattr(p, model))) for p in some if p.nbytes >= LARGE_bytes]


def percentile(shares: list[float], percent: int) -> float:
    return quantiles(shares, n=100, method="inclusive")[percent - 1] if len(shares) > 1 else shares[0]


def percentiles(some: Iterable[Point]) -> dict[str, dict[str, dict[str, float]]]:
    """Percentiles of the absolute errors by what is compared and by model."""
    by_model = {name: errors(some, model) for model, name in MODELS.items()}
    return {
        what: {name: {f"p{p}": round(percentile(both[k], p), 4) for p in PERCENTS} for name, both in by_model.items()}
        for k, what in enumerate(("time, all sizes", f"busbw from {size(LARGE_bytes)}"))
    }


def table(by_system: Mapping[str, list[Point]]) -> list[str]:
    """Each system's figures by our model, NCCL's behind them."""
    lines = [f"{'':38}{'time':>6}{'':9}{f'busbw from {size(LARGE_bytes)}':>20}{'':11}largest size, busbw (GB/s)",
             f"{'|error|, median (NCCL model)':38}{'all sizes':>15}{'':9}{'median':>7}{'p90':>10}"
             f"{'bytes':>14}{'measured':>11}{'predicted':>11}"]  # fmt: skip
    everything = [p for some in by_system.values() for p in some]
    for name, some in [*by_system.items(), ("all of them", everything)]:
        ours, theirs = figures(some), figures(some, "theirs")
        text = f"{name:38}{_both(ours, theirs, 'time_median')}"
        if "busbw_median" in ours:
            text += f"   {_both(ours, theirs, 'busbw_median')}{_percent(ours['busbw_p90']):>10}"
        if name in by_system:
            last = some[-1]
            measured, predicted = (last.busbw_GBps(time_s) for time_s in (last.measured_s, last.ours.time_s))
            text += f"{last.nbytes:>14}{measured:>11.1f}{predicted:>11.1f}"
        lines.append(text)
    for what, by_model in percentiles(everything).items():
        head = f"|error| of {what}, percentile"
        lines += ["", f"{head:38}" + "".join(f"{p:>8}" for p in PERCENTS)]
        lines += [f"{name:38}" + "".join(f"{_percent(v):>8}" for v in row.values()) for name, row in by_model.items()]
    return lines


def _both(ours: Mapping[str, float], theirs: Mapping[str, float], key: str) -> str:
    return f"{_percent(ours[key]):>7} {'(' + _percent(theirs[key]) + ')':>8}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def sizes(some: Iterable[Point]) -> list[str]:
    """Measured beside predicted."""
    lines = [f"{'bytes':>14}{'measured us':>13}{'predicted us':>13}{'error':>8}{'busbw GB/s':>12}{'predicted':>10}"
             f"{'error':>8}  NCCL's pick, bottleneck"]  # fmt: skip
    for p in some:
        lines.append(
            f"{p.nbytes:>14}{p.measured_s * 1e6:>13.1f}{p.ours.time_s * 1e6:>13.1f}{100 * p.time_error(p.ours):>7.0f}%"
            f"{p.busbw_GBps(p.measured_s):>12.2f}{p.busbw_GBps(p.ours.time_s):>10.2f}"
            f"{100 * (p.busbw_GBps(p.ours.time_s) / p.busbw_GBps(p.measured_s) - 1):>7.0f}%"
            f"  {p.ours.algorithm}/{p.ours.protocol}, {p.ours.bottleneck}"
        )
    return lines


def intervals(by_system: Mapping[str, list[Point]]) -> list[str]:
    """Points inside the predictions' intervals, and the intervals' widths (benchmarks/intervals.py)."""
    sys.path.append(str(Path(__file__).parent.parent))  # where the file is run, and not the module
    from benchmarks.intervals import lines

    return lines(by_system)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="systems, by a part of their file's name (default all)")
    parser.add_argument("--sizes", action="store_true", help="each size")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures; nothing measured is in it")
    args = parser.parse_args()
    tables = folder()
    if not tables.is_dir():
        sys.exit(f"no tables at {tables}: set RINGTREE_DATA to the folder that has nccl_tests/")
    chosen = [s for s in SYSTEMS if not args.names or any(name in s.file for name in args.names)]
    if not chosen:
        sys.exit(f"no system has {' or '.join(args.names)} in its name: {', '.join(s.file for s in SYSTEMS)}")
    by_system = {s.file: points(s, tables) for s in chosen}
    for system in chosen if args.sizes else []:
        print(f"\n{system.file}: {system.cluster.name}" + (f" ({system.note})" if system.note else ""))
        print("\n".join(sizes(by_system[system.file])))
    print("\n" + "\n".join(table(by_system)))
    print("\n" + "\n".join(intervals(by_system)))
    if args.json:
        overall = [p for some in by_system.values() for p in some]
        record = {
            "goals": GOALS,
            "figures from another system's table": ELSEWHERE,
            "all": figures(overall),
            "all, by NCCL's model": figures(overall, "theirs"),
            "percentiles": percentiles(overall),
            "systems": {s.file: {"on": s.cluster.name, **figures(by_system[s.file])} for s in chosen},
        }
        args.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
