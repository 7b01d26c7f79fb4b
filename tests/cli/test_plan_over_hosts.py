"""`ringtree plan --hosts`: the table, where its network is from, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ringtree.bench import tuned_text
from ringtree.plan import choose_over_hosts
from ringtree.price import BUILT_IN, Hosts, NetworkCost, SharedMemory
from ringtree.price.hosts import PAYLOAD_SHARE
from ringtree.runtime import tuned
from ringtree.runtime.engines.shm import staging
from tests.cli.conftest import Ringtree

THREE = ("plan", "all_reduce", "--hosts", "2,2,2", "--rate", "2gbit", "--latency", "60us")


@pytest.fixture(autouse=True)
def _no_tuned_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(tuned.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def recorded(ringtree: Ringtree, path: Path, *words: str) -> dict:
    got = ringtree(*words, "--json", str(path))
    assert got.code == 0, got.err
    found: dict = json.loads(path.read_text())
    return found


def test_a_line_for_each_size_with_its_bound_and_the_reason(ringtree: Ringtree, tmp_path: Path) -> None:
    got = ringtree(*THREE, "-b", "8", "-e", "64M", "-f", "4096", "--json", str(tmp_path / "rows.json"))
    assert got.code == 0
    lines = [line.split() for line in got.out.splitlines() if line and not line.startswith("#")]
    assert [line[0] for line in lines] == ["8", "32768"]
    assert "6 ranks on 3 hosts (2, 2, 2)" in got.out and "239 MB/s of payload each way (2 Gb/s)" in got.out
    assert "# 8 B: " in got.out and ": the network " in got.out and "; next, " in got.out
    assert "the network's cut: the link into host 0" in got.out
    for row in json.loads((tmp_path / "rows.json").read_text())["rows"]:
        assert row["time_us"] == pytest.approx(row["network_us"] + row["memory_us"] + row["messages_us"])
        assert row["network_us"] >= row["bound_us"] * 0.999


def test_the_choice_is_that_of_a_call_over_such_hosts(ringtree: Ringtree, tmp_path: Path) -> None:
    found = recorded(ringtree, tmp_path / "rows.json", *THREE, "--bytes", "8,64K,16M")
    bandwidth_Bps = 250e6 * PAYLOAD_SHARE
    memory = SharedMemory(_cores(), *staging(6, latency_s=60e-6), BUILT_IN)
    where = Hosts((0, 0, 1, 1, 2, 2), memory, 60e-6, bandwidth_Bps)
    for row in found["rows"]:
        call = choose_over_hosts("all_reduce", where, None, row["nbytes"])
        assert (row["algorithm"], row["steps"]) == (call.algorithm, str(call.steps))
        bound_s = 4 / 3 * row["nbytes"] / bandwidth_Bps
        assert row["bound_us"] == pytest.approx(max(bound_s, 60e-6) * 1e6)


@pytest.mark.parametrize("hosts", ["2,2,2", "2,1,2"])
def test_a_nested_choice_is_printed_as_it_is_typed(ringtree: Ringtree, hosts: str) -> None:
    network = ["--hosts", hosts, "--rate", "2gbit", "--latency", "60us"]
    out = ringtree("plan", "all_reduce", *network, "--bytes", "64K").out
    found = re.search(r"^# (.*) in hosts and (.*) between at 64 KiB; `(hierarchical .*)` in other commands$", out, re.M)
    assert found is not None
    got = ringtree("simulate", *found[3].split(), *network, "--bytes", "64K", "--cut")
    assert got.code == 0 and got.out.startswith("hierarchical all_reduce over ")
    assert f"inner={found[1]} " in f"{found[3]} " and f"outer={found[2]} " in f"{found[3]} "
    assert re.search(
        r"^# \S+ from 8 B to 64 B$", ringtree("plan", "all_reduce", "--hosts", "1,1", "--bytes", "8,64").out, re.M
    )


def test_all_figures_of_a_row_are_of_its_size(ringtree: Ringtree, tmp_path: Path) -> None:
    """The choice is that of the next power of two."""
    found = recorded(ringtree, tmp_path / "rows.json", *THREE, "--bytes", "1M,1025K,2M")
    low, row, high = found["rows"]
    times = {(c["label"], c["steps"]): c["time_us"] for c in low["candidates"]}
    shared = [c for c in row["candidates"] if (c["label"], c["steps"]) in times]
    assert len(shared) > 5
    for c in shared:
        assert c["time_us"] < 1.1 * times[c["label"], c["steps"]], c
    assert row["beside"]["label"] == high["beside"]["label"]
    assert row["beside"]["time_us"] < high["beside"]["time_us"] / 1.2


def _cores() -> int:
    from ringtree.bench.machine import usable_cores

    return usable_cores()


def test_another_latency_has_another_choice_beside(ringtree: Ringtree, tmp_path: Path) -> None:
    words = ("plan", "broadcast", "--hosts", "2,2,2", "--rate", "235MB/s", "--latency", "30us", "--bytes", "1M")
    row = recorded(ringtree, tmp_path / "rows.json", *words, "--beside", "5ms")["rows"][0]
    assert (row["algorithm"], row["beside"]["algorithm"]) == ("chain", "hierarchical")
    near = recorded(ringtree, tmp_path / "near.json", *words, "--beside", "31us")["rows"][0]
    assert near["beside"]["algorithm"] == "chain"


def test_a_tuned_file_has_hosts_and_network(ringtree: Ringtree, tmp_path: Path) -> None:
    file, network = tmp_path / "hosts.json", NetworkCost(1e-3, 125e6, "measured on a Sunday", 4e-6)
    file.write_text(tuned_text.text(BUILT_IN, (2,), "a Sunday", network, (0, 0, 1)))
    words = ("plan", "broadcast", "--tuned", str(file), "--bytes", "1M")
    found = recorded(ringtree, tmp_path / "rows.json", *words)
    assert found["hosts"] == [0, 0, 1]
    assert found["network"] == {
        "latency_s": 1e-3,
        "bandwidth_Bps": 125e6,
        "message_s": 4e-6,
        "source": "measured on a Sunday",
    }
    other = recorded(ringtree, tmp_path / "rows.json", *words, "--hosts", "4,4", "--latency", "2ms")
    assert other["hosts"] == [0] * 4 + [1] * 4
    assert (other["network"]["latency_s"], other["network"]["bandwidth_Bps"]) == (2e-3, 125e6)
    assert other["network"]["source"] == "latency as given, else measured on a Sunday"


def test_the_file_that_init_reads_is_the_default(
    ringtree: Ringtree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assumed = recorded(ringtree, tmp_path / "rows.json", "plan", "all_reduce", "--hosts", "1,1", "--bytes", "8")
    assert assumed["network"]["source"].startswith("assumed")
    file, network = tmp_path / "hosts.json", NetworkCost(1e-3, 125e6, "measured on a Sunday")
    file.write_text(tuned_text.text(BUILT_IN, (2,), "a Sunday", network, (0, 1)))
    monkeypatch.setenv(tuned.VARIABLE, str(file))
    found = recorded(ringtree, tmp_path / "rows.json", "plan", "all_reduce", "--hosts", "1,1", "--bytes", "8")
    assert found["network"]["source"] == "measured on a Sunday"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--hosts", "2,x"), "--hosts '2,x': expected the number of ranks on each host"),
        (("--hosts", ""), "--hosts '': expected the number of ranks on each host"),
        (("--hosts", "0,2"), "--hosts '0,2': expected the number of ranks on each host"),
        (("--hosts", "4"), "4 ranks on 1 host; expected 2 hosts at least"),
        (("--hosts", "4000,97"), "4097 ranks on 2 hosts; expected 2 hosts at least and 4096 ranks at most"),
        (("--hosts", "2,2", "--rate", "2"), "--rate '2': expected such as 2gbit"),
        (("--hosts", "2,2", "--rate", "0gbit"), "--rate '0gbit': expected such as 2gbit"),
        (("--hosts", "2,2", "--latency", "60"), "--latency '60': expected more than 0"),
        (("--hosts", "2,2", "--beside", "11s"), "--beside '11s': expected more than 0, at most 10s"),
        (("--hosts", "2,2", "-n", "4"), "-n/--ranks does not apply to --hosts"),
        (("--hosts", "2,2", "--nodes", "4"), "--nodes does not apply to --hosts"),
        (("--hosts", "2,2", "--sharp"), "--sharp does not apply to --hosts"),
        (("--hosts", "2,2", "--model", "nccl"), "--model does not apply to --hosts"),
        (("--hosts", "2,2", "--bytes", "1M", "-b", "8"), "--bytes and -b/--minbytes both name sizes: expected one of"),
        (("--rate", "2gbit"), "--rate describes a network between hosts"),
        (("--tuned", "no such file"), "no such file"),
    ],
)
def test_options_that_do_not_fit_are_refused(ringtree: Ringtree, words: tuple[str, ...], expected: str) -> None:
    got = ringtree("plan", "all_reduce", *words)
    assert got.code and expected in got.err and got.err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "Bps"),
    [("2gbit", 250e6), ("500mbit", 62.5e6), ("2Gb/s", 250e6), ("2Gbit/s", 250e6), ("250MB/s", 250e6), ("8kbps", 1e3)],
)
def test_rates_are_bits_or_bytes(text: str, Bps: float) -> None:
    from ringtree.cli.arguments.hosts import link_rate

    assert link_rate(text) == pytest.approx(Bps)
