"""Explaining a log: healthy ones, the two misconfigured ones, and faults that a model with noise has measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ringtree.machines.catalogue import machine
from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import Note, NoteKind
from ringtree.machines.nics import usual_fabric, with_nics
from ringtree.nccl.cluster_plan import ClusterPlan
from ringtree.nccl.explain import Diagnosis, explain
from ringtree.nccl.faults import Fault, faults
from ringtree.nccl.files.debug_log import Debug
from ringtree.nccl.files.device_lists import Ran
from ringtree.nccl.files.measured_rows import NcclTestsRow
from ringtree.nccl.files.nccl_tests import Log, read
from ringtree.topology.fabrics import FABRICS

SIZES = (8, 64, 1024, 8192, 1 << 17, 1 << 22, 1 << 24, 1 << 26, 1 << 28, 1 << 30)
FEW = (8, 1024, 1 << 24, 1 << 28, 1 << 30)


@cache
def cluster_of(
    name: str, nodes: int = 1, gpus: range | tuple[int, ...] | None = None, nics: tuple[int, float] | None = None
) -> Cluster:
    m = machine(name)
    if gpus is not None:
        m = m.part(gpus)
    if nics is not None:
        m = with_nics(m, *nics)
    return Cluster(m, nodes, FABRICS[usual_fabric(m) or "tcp"])


def measured(
    cluster: Cluster, debug: Debug | None = None, sizes: Iterable[int] = SIZES, seed: int = 7, **forced: Any
) -> Log:
    """The model's times for a cluster, within 6 %. `forced`: as of ClusterPlan."""
    random, plan = Random(seed), ClusterPlan(cluster, **forced)
    rows = [
        NcclTestsRow(n, n // 4, "float", "sum", -1,
            (plan.candidates("all_reduce", n)[1].time_s * random.uniform(0.94, 1.06),),
            0.0, 0.0, 0, line)
        for line, n in enumerate(sizes, 1)
    ]  # fmt: skip
    return Log(Path("any"), "all_reduce", cluster.ranks, tuple(rows), debug=debug or Debug())


def heard(*lines: str) -> Debug:
    debug = Debug()
    for number, line in enumerate(lines, 1):
        debug.read(f"node:1:1 [0] NCCL INFO {line}", number)
    return debug


def fault_of(cluster: Cluster, key: str, nth: int = 0) -> Fault:
    return [f for f in faults(cluster) if f.key == key][nth]


HEALTHY = [
    ("aws_p5_1n_allreduce", "aws-p5", 1, None, None),
    ("b5_a100_2gpu_allreduce", "dgx-a100", 1, 2, None),
    ("b5_a100_4gpu_allreduce", "dgx-a100", 1, 4, None),
    ("coreweave_gb200_nvl72_1rack_allreduce", "gb200-nvl72", 1, None, None),
    ("cscs_gh200_2n_allreduce_ofi", "gh200x4", 2, None, None),
    ("dstack_gcp_a3high_allgather", "gcp-a3-high", 2, None, None),
    ("dstack_nebius_h100_2n_allreduce", "dgx-h100", 2, None, None),
    ("gcp_a3high_2n_allgather", "gcp-a3-high", 2, None, None),
    ("gcp_a3mega_2n_allreduce", "gcp-a3-mega", 2, None, None),
    ("gcp_a3ultra_2n_allgather", "gcp-a3-ultra", 2, None, None),
    ("issue252_ring_8rank", "dgx-a100", 2, 4, (4, 25e9)),
    ("issue309_h100_2n_dell_xe9680", "dgx-h100", 2, None, None),
    ("issue309_h100_4n_vm", "dgx-h100", 4, None, None),
    ("oci_a100_8gpu_1n_point", "oci-gpu4", 1, None, None),
]


@pytest.mark.parametrize(("file", "name", "nodes", "gpus", "nics"), HEALTHY, ids=[case[0] for case in HEALTHY])
def test_published_tables_have_nothing_wrong(
    data_folder: Path, file: str, name: str, nodes: int, gpus: int | None, nics: tuple[int, float] | None
) -> None:
    cluster = cluster_of(name, nodes, range(gpus) if gpus else None, nics)
    found = explain(read(data_folder / "nccl_tests" / f"{file}.csv"), cluster)
    assert found.verdict is Diagnosis.HEALTHY and not found.suspects and not found.algorithm


def test_a_seventh_of_the_prediction_is_reported_though_no_fault_fits(data_folder: Path) -> None:
    """Two RTX 4090 whose prediction is without P2P already."""
    cluster = cluster_of("rtx4090-pcie", gpus=range(2))
    found = explain(read(data_folder / "nccl_tests" / "rtx4090_2gpu_pcie_shm.csv"), cluster)
    assert (found.verdict, found.suspects, found.algorithm) == (Diagnosis.FAR_BELOW, (), "")


@pytest.mark.slow
def test_the_table_without_the_plugin_went_by_sockets(data_folder: Path, tmp_path: Path) -> None:
    file = data_folder / "nccl_tests" / "cscs_gh200_2n_allreduce_noplugin.csv"
    text = file.read_text().split("# collective", 1)[1]  # nor does the header's story play a role
    (tmp_path / "another.csv").write_text("# collective" + text)
    for path in (file, tmp_path / "another.csv"):
        found = explain(read(path), cluster_of("gh200x4", 2))
        assert (found.verdict, [s.fault.key for s in found.suspects]) == (Diagnosis.CAUSE, ["sockets"])


@pytest.mark.parametrize("gpus", [(0, 1, 2, 3), (0, 1, 4, 5)])
def test_the_table_of_four_v100_did_not_use_nvlink(data_folder: Path, gpus: tuple[int, ...]) -> None:
    found = explain(read(data_folder / "nccl_tests" / "gdr116_v100_4gpu_pcie.csv"), cluster_of("dgx-1-v100", 1, gpus))
    assert found.verdict is Diagnosis.UNDECIDED
    assert {s.fault.key for s in found.suspects} == {"p2p_off", "nvlink_unused"}


@pytest.mark.slow
def test_ring_where_nvls_is_expected_is_no_fault(data_folder: Path) -> None:
    found = explain(
        read(data_folder / "nccl_tests" / "k8snccl_h100_2n_allreduce.csv"), cluster_of("dgx-h100", 2, nics=(8, 25e9))
    )
    assert (found.verdict, found.algorithm) == (Diagnosis.HEALTHY, "ring/simple")


@pytest.mark.parametrize(("name", "nodes"), [("dgx-a100", 2), ("gh200x4", 2), ("dgx-1-v100", 1), ("mi300x8", 1),
                                             ("v100-pcie", 1), ("aws-p4d", 4)])  # fmt: skip
def test_a_log_as_predicted_has_no_fault(name: str, nodes: int) -> None:
    cluster = cluster_of(name, nodes)
    found = explain(measured(cluster), cluster)
    assert (found.verdict, found.suspects) == (Diagnosis.HEALTHY, ())


# Fault, machine, nodes, and NCCL's line about it.
FAULTS = [
    ("sockets", 0, "dgx-a100", 2, "Using network Socket"),
    pytest.param(
        *("sockets", 1, "dgx-a100", 2, "Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0"), marks=pytest.mark.slow
    ),
    ("gdr_off", 0, "dgx-a100", 2, "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0"),
    ("rails", 0, "dgx-a100", 2, "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>"),
    pytest.param(
        *("rails", 1, "dgx-a100", 2, "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>"),
        marks=pytest.mark.slow,
    ),
    ("cpu_link", 0, "dgx-a100", 2, ""),
    ("p2p_off", 0, "dgx-1-v100", 1, "NCCL_P2P_DISABLE set by environment to 1."),
    ("nvlink_unused", 0, "dgx-1-v100", 1, ""),
    ("p2p_off", 0, "mi300x8", 1, "Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct"),
    ("pcie_half", 0, "v100-pcie", 1, ""),
    pytest.param("pcie_half", 0, "gh200x4", 2, "", marks=pytest.mark.slow),
    pytest.param("rails", 0, "gh200x4", 2, "", marks=pytest.mark.slow),
    pytest.param(
        *("gdr_off", 0, "dgx-h100", 2, "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0"), marks=pytest.mark.slow
    ),
    pytest.param("gdr_off", 1, "dgx-h100", 2, "", marks=pytest.mark.slow),
    pytest.param("acs", 0, "dgx-h100", 2, "", marks=pytest.mark.slow),
    ("nic_half", 0, "gh200x4", 2, ""),
    ("acs", 0, "v100-pcie", 1, ""),
    ("protocol", 0, "dgx-a100", 2, ""),
]


@pytest.mark.parametrize(("key", "nth", "name", "nodes", "line"), FAULTS)
def test_a_fault_is_among_those_named_and_alone_with_nccls_line(
    key: str, nth: int, name: str, nodes: int, line: str
) -> None:
    cluster = cluster_of(name, nodes, range(4))
    fault = fault_of(cluster, key, nth)
    found = explain(measured(fault.cluster, protocol=fault.protocol), cluster)
    assert found.verdict in (Diagnosis.CAUSE, Diagnosis.UNDECIDED)
    assert key in [s.fault.key for s in found.suspects]
    if line:
        explanation = explain(measured(fault.cluster, heard(line), FEW), cluster)
        assert explanation.verdict is Diagnosis.CAUSE
        assert [(s.fault.key, s.fault.what) for s in explanation.suspects] == [(key, fault.what)]
        assert explanation.suspects[0].evidence


def test_a_cause_that_nccl_denies_is_no_candidate() -> None:
    cluster = cluster_of("dgx-1-v100", gpus=range(4))
    slow = measured(fault_of(cluster, "nvlink_unused").cluster, heard("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC"))
    found = explain(slow, cluster)
    assert (found.verdict, [s.fault.key for s in found.suspects]) == (Diagnosis.CAUSE, ["nvlink_unused"])


@pytest.mark.parametrize("name", ["dgx-a100", pytest.param("dgx-h100", marks=pytest.mark.slow)])
def test_gpudirect_rdma_in_nccls_log_is_no_candidate(name: str) -> None:
    cluster = cluster_of(name, 2, range(4))
    slow = fault_of(cluster, "gdr_off").cluster
    blamed = {
        line: {s.fault.key for s in explain(measured(slow, heard(line)), cluster).suspects}
        for line in (
            "Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0",
            "Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0/GDRDMA",
        )
    }
    assert ["gdr_off" in keys for keys in blamed.values()] == [True, False]


def test_a_setting_that_does_no_harm_is_not_blamed() -> None:
    cluster = cluster_of("dgx-1-v100")
    found = explain(measured(cluster, heard("NCCL_P2P_DISABLE set by environment to 1.")), cluster)
    assert found.verdict is Diagnosis.HEALTHY


@pytest.mark.parametrize(("times", "near"), [(30, ["p2p_off", "nvlink_unused"]), (100, [])])
def test_slower_than_any_fault_is_unexplained(times: int, near: list[str]) -> None:
    cluster = cluster_of("dgx-a100")
    log = measured(cluster)
    slow = tuple(replace(r, times_s=(r.times_s[0] * (times if r.nbytes > 1 << 20 else 1),)) for r in log.rows)
    found = explain(replace(log, rows=slow), cluster)
    assert found.verdict is Diagnosis.UNEXPLAINED and [s.fault.key for s in found.suspects] == near


@pytest.mark.parametrize(
    ("name", "busbw_GBps", "what", "verdict"),
    [
        ("gh200x4", 44.5, "one rail is used: 1 of 4 NICs", Diagnosis.UNDECIDED),
        pytest.param("dgx-h100", 197, "2 of 8 NICs are used", Diagnosis.CAUSE, marks=pytest.mark.slow),
    ],
)
def test_a_fault_that_allows_less_than_measured_is_not_named(
    name: str, busbw_GBps: float, what: str, verdict: Diagnosis
) -> None:
    """One NIC of a GH200 carries no more than 42.3 GB/s of bus bandwidth between two nodes, two of a DGX H100 186,
    whatever bandwidth the model predicts for them."""
    cluster = cluster_of(name, 2)
    log = measured(cluster, sizes=[1 << 30, 2 << 30, 4 << 30])
    bus_factor = 2 * (cluster.ranks - 1) / cluster.ranks
    quick = tuple(replace(r, times_s=(r.nbytes * bus_factor / (busbw_GBps * 1e9),)) for r in log.rows)
    found = explain(replace(log, rows=quick), cluster)
    assert found.verdict is verdict
    assert what in {fault.what for fault in faults(cluster)} - {s.fault.what for s in found.suspects}


def test_where_only_the_most_is_known_slowness_alone_names_no_fault() -> None:
    """Two GPUs without P2P, a tenth as quick at length: a host may be so. With slow small sizes something is wrong."""
    cluster = cluster_of("rtx4090-pcie", gpus=range(2))
    log = measured(cluster)
    for start, verdict in ((1, Diagnosis.FAR_BELOW), (5, Diagnosis.UNEXPLAINED)):
        slow = tuple(replace(r, times_s=(r.times_s[0] * (10 if r.nbytes > 1 << 16 else start),)) for r in log.rows)
        found = explain(replace(log, rows=slow), cluster)
        assert found.verdict is verdict
        assert any("copies depends on the host" in remark for remark in found.remarks) == (start == 1)


def test_sizes_in_the_middle_decide_nothing_and_small_ones_alone_show_sockets() -> None:
    cluster = cluster_of("gh200x4", 2)
    sockets = fault_of(cluster, "sockets").cluster
    assert explain(measured(cluster, sizes=(1 << 16, 1 << 18)), cluster).verdict is Diagnosis.NO_CONCLUSION
    assert explain(measured(cluster, sizes=(8, 1024)), cluster).verdict is Diagnosis.HEALTHY
    slow = measured(sockets, sizes=(8, 1024))
    rows = tuple(replace(r, times_s=(1.6 * r.times_s[0],)) for r in slow.rows)
    assert [s.fault.key for s in explain(replace(slow, rows=rows), cluster).suspects] == ["sockets"]


FASTER = [
    (("dgx-a100", 2), ("dgx-h100", 2)),
    (("v100-pcie",), ("dgx-1-v100",)),
]


@pytest.mark.parametrize(("given", "ran"), FASTER)
def test_a_log_above_the_interval_is_reported(given: tuple[Any, ...], ran: tuple[Any, ...]) -> None:
    """A machine with less is given than the log ran on."""
    cluster = cluster_of(*given)
    found = explain(replace(measured(cluster_of(*ran)), ranks=cluster.ranks), cluster)
    assert found.verdict is Diagnosis.FASTER and not found.suspects
    assert found.at_length is not None and found.at_length.ratio > 1.3
    assert "machine" in {r.key for r in found.reasons}


def test_faster_nics_than_given_fit_a_faster_log() -> None:
    given, ran = (cluster_of("dgx-a100", 4, None, (8, rate)) for rate in (6.25e9, 12.5e9))
    found = explain(measured(ran), given)
    assert found.verdict is Diagnosis.FASTER
    assert (found.reasons[0].key, found.reasons[0].fits) == ("nics", True)


def test_small_sizes_alone_may_be_faster() -> None:
    cluster = cluster_of("dgx-1-v100", gpus=range(4))
    log = measured(cluster, sizes=(8, 1024))
    quick = tuple(replace(r, times_s=(r.times_s[0] / 3,)) for r in log.rows)
    found = explain(replace(log, rows=quick), cluster)
    assert found.verdict is Diagnosis.FASTER and found.at_length is None


def test_a_healthy_ring_is_no_fault_and_named_with_evidence() -> None:
    """Without NVLink SHARP NCCL takes a ring; that it was switched off is a cause where the log shows it."""
    cluster, off = cluster_of("dgx-h100"), ("nvls", "nvls_tree")
    found = explain(measured(cluster, excluded=off), cluster)
    assert (found.verdict, found.algorithm, found.suspects) == (Diagnosis.HEALTHY, "ring/simple", ())
    line = "NCCL_NVLS_ENABLE set by environment to 0."
    found = explain(measured(cluster, heard(line), excluded=off), cluster)
    assert (found.verdict, [s.fault.key for s in found.suspects]) == (Diagnosis.CAUSE, ["nvls_off"])


def slowed(log: Log, times: float) -> Log:
    """The log with more time for the sizes above 1 MiB."""
    rows = (replace(r, times_s=(r.times_s[0] * (times if r.nbytes > 1 << 20 else 1),)) for r in log.rows)
    return replace(log, rows=tuple(rows))


def test_no_cause_is_named_that_fits_hardly_better_than_none() -> None:
    """P2P off would fit too, by a factor of 2.5, but no better than a healthy cluster does."""
    cluster = cluster_of("dgx-h100", 2, range(4), (4, 12.5e9))
    found = explain(slowed(measured(cluster), 1.3), cluster)
    assert [s.fault.key for s in found.suspects] == ["rails"]


def test_a_little_below_the_interval_is_remarked_on_without_a_cause() -> None:
    cluster = cluster_of("dgx-a100", gpus=range(2))
    for times, below in ((1.1, False), (1.3, True)):
        found = explain(slowed(measured(cluster), times), cluster)
        assert (found.verdict, found.suspects) == (Diagnosis.HEALTHY, ())
        assert any("below the interval" in remark for remark in found.remarks) is below


def test_a_setting_is_named_within_a_wide_interval_if_it_did_harm() -> None:
    """Copies by the host may be as slow without a fault, so that figures alone name none."""
    cluster = cluster_of("rtx4090-pcie", gpus=range(4))
    slow = fault_of(cluster, "numa").cluster
    assert explain(measured(slow), cluster).verdict is Diagnosis.HEALTHY
    found = explain(measured(slow, heard("NCCL_IGNORE_CPU_AFFINITY set by environment to 1.")), cluster)
    assert (found.verdict, [s.fault.key for s in found.suspects]) == (Diagnosis.CAUSE, ["numa"])


def test_a_bus_bandwidth_by_another_factor_is_remarked_on() -> None:
    cluster = cluster_of("dgx-a100")
    log = measured(cluster)
    for busbw, named in ((175.0, False), (100.0, True)):
        rows = (*log.rows[:-1], replace(log.rows[-1], algbw=100.0, busbw=busbw))
        remarks = explain(replace(log, rows=rows), cluster).remarks
        assert any("compare times" in remark for remark in remarks) is named


def test_a_log_of_other_ranks_is_refused() -> None:
    cluster = cluster_of("dgx-a100")
    log = replace(measured(cluster), ranks=7)
    with pytest.raises(ValueError, match="any: has 7 ranks; expected 8, as dgx-a100 has"):
        explain(log, cluster)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ((8,), "3 wrong elements at 8 B, first in line 20:"),
        ((8, 64 << 10), "6 wrong elements at 8 B and 64 KiB, first in line 19:"),
        ((8, 64 << 10, 1 << 20), "9 wrong elements at 8 B, 64 KiB and 1 MiB, first in line 18:"),
        ((8, 512, 64 << 10, 1 << 20, 64 << 20), "15 wrong elements at 5 sizes from 8 B to 64 MiB, first in line 16:"),
    ],
)
def test_wrong_results_are_named_at_all_sizes(wrong: tuple[int, ...], words: str) -> None:
    cluster = cluster_of("dgx-a100")
    log = measured(cluster, sizes=sorted({*wrong, 4 << 20, 16 << 20}))
    rows = [
        replace(row, wrong=3, wrong_line=20 - wrong.index(row.nbytes)) if row.nbytes in wrong else row
        for row in log.rows
    ]
    assert any(
        f"WRONG RESULTS: {words}" in remark for remark in explain(replace(log, rows=tuple(rows)), cluster).remarks
    )


@pytest.mark.parametrize(
    ("collective", "lines", "taken"),
    [
        ("all_gather", ["NCCL_ALGO set by environment to Tree"], [False]),
        ("all_to_all", ["NCCL_ALGO set by environment to Ring"], [False]),
        ("all_to_all", ["NCCL_PROTO set by environment to LL128"], [False]),
        ("all_reduce", ["NCCL_ALGO set by environment to Ring,Tree", "NCCL_PROTO set by environment to Simple"],
         [False, True]),
    ],
)  # fmt: skip
def test_a_variable_that_the_collective_cannot_follow_is_left_out(
    collective: str, lines: list[str], taken: list[bool]
) -> None:
    cluster = cluster_of("dgx-h100")
    log = replace(measured(cluster, heard(*lines)), collective=collective)
    remarks = [remark for remark in explain(log, cluster).remarks if " was set" in remark]
    assert [not remark.endswith("not taken into account") for remark in remarks] == taken


def test_remarks_name_wrong_results_the_other_gpu_and_traps() -> None:
    cluster = cluster_of("dgx-a100")
    trap = Note(NoteKind.TRAP, "gpu0", "its link speed reads as Gen3")
    cluster = replace(cluster, machine=replace(cluster.machine, notes=(trap,)))
    log = measured(cluster, heard("NCCL_ALGO set by environment to RING"))
    rows = (replace(log.rows[0], wrong=3, wrong_line=7), *log.rows[1:])
    ran = (Ran(0, "node", 0, "0000:1b:00", "NVIDIA H100 80GB HBM3"),)
    remarks = " ".join(explain(replace(log, rows=rows, ran=ran), cluster).remarks)
    for words in (
        "WRONG RESULTS: 3 wrong elements at 8 B, first in line 7",
        "H100 80GB HBM3; the topology has A100",
        "NCCL_ALGO=RING",
        "Gen3",
    ):
        assert words in remarks
