"""The file of this machine's costs: read by rank 0, agreed on by all, and refused in one line where it is no use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ringtree
from ringtree.algorithms import build
from ringtree.bench import tuned_text
from ringtree.plan import shortlist
from ringtree.price import BUILT_IN, NetworkCost
from ringtree.price.memory.corrections import Correction, Corrections
from ringtree.runtime import tuned
from ringtree.simulate import Job, play
from ringtree.topology import load

PARAMETERS = replace(BUILT_IN, latency_s=1e-3, switch_s=1e-3)
"""On such a machine one synchronization costs more than any number of bytes."""


def written(path: Path, **changes: Any) -> Path:
    data = json.loads(tuned_text.text(PARAMETERS, (2, 4), "2026-11-21"))
    data["tuned"] |= changes
    path.write_text(json.dumps(data))
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = written(tmp_path / "machine.json")
    monkeypatch.setenv(tuned.VARIABLE, str(path))
    return path


def picked(comm: ringtree.Communicator) -> tuple[str, str]:
    group = comm.split(0)
    names = {c.chosen("all_reduce", 1 << 14).part.program.name for c in (comm, group)}
    assert int(comm.all_reduce([1])[0]) == comm.size
    return ",".join(names), comm.chosen("all_reduce", 1 << 14).why


def test_written_parameters_read_back(here: Path) -> None:
    found = tuned.read(here)
    assert found.parameters == PARAMETERS
    assert (found.date, found.ranks, found.ringtree) == ("2026-11-21", (2, 4), ringtree.__version__)
    assert found.parameters.source == "parameters measured on 2026-11-21"


def test_a_file_that_knows_no_nodes_has_their_built_in_costs(here: Path) -> None:
    data = json.loads(here.read_text())
    for name in ("across_s", "across_Bps", "link_Bps"):
        del data["tuned"]["figures"][name]
    here.write_text(json.dumps(data))
    assert tuned.read(here).parameters == PARAMETERS


def test_corrections_read_back_and_ranks_choose_by_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    *names, last = shortlist("all_reduce", 4)
    slower = Corrections(Correction("all_reduce", name, 4, 1 << 14, 987.6) for name in names)
    parameters = replace(PARAMETERS, corrections=slower)
    (tmp_path / "machine.json").write_text(tuned_text.text(parameters, (4,), "2026-11-21"))
    assert tuned.read(tmp_path / "machine.json").parameters == parameters != PARAMETERS
    monkeypatch.setenv(tuned.VARIABLE, str(tmp_path / "machine.json"))
    assert {name for name, _ in ringtree.spawn(picked, 4)} == {last}


def test_cost_parameters_are_a_topology_too(here: Path) -> None:
    machine = load(here)
    assert machine.ranks == 4 and machine.latency_s[0] == 1e-3


def test_a_measured_network_is_read_back_and_makes_the_topology_one_of_hosts(tmp_path: Path) -> None:
    path, network = tmp_path / "hosts.json", NetworkCost(1e-3, 1e8, "measured on a Sunday", 4e-6)
    path.write_text(tuned_text.text(PARAMETERS, (2,), "a Sunday", network, (0, 0, 1)))
    found = tuned.read(path)
    assert (found.network, found.host_of) == (network, (0, 0, 1))
    assert found.network is not None and found.network.source == network.source
    hosts = load(path)
    assert hosts.hosts.tolist() == [0, 0, 1]
    near_s, far_s = (play([Job(build("flat", "broadcast", 3, root), 1 << 20)], hosts).time_s for root in (0, 2))
    assert 1e-3 + (1 << 20) / 1e8 < near_s < 1.5 * (1 << 20) / 1e8  # one of two messages crosses the link
    assert far_s > 2 * (1 << 20) / 1e8  # both do


def test_a_network_of_before_its_messages_were_measured_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "machine.json", network=NETWORK)
    assert tuned.read(path).network == NetworkCost(1e-3, 1e8) and tuned.read(path).host_of == ()


def test_ranks_choose_by_it(here: Path) -> None:
    for name, why in ringtree.spawn(picked, 4):
        assert name == "one_shot" and "measured on 2026-11-21" in why


def test_threads_choose_by_it(here: Path) -> None:
    assert {name for name, _ in ringtree.spawn(picked, 4, threads=True)} == {"one_shot"}


def test_without_it_the_choice_is_another(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(tuned.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name, why in ringtree.spawn(picked, 4):
        assert name != "one_shot" and "by built-in cost parameters" in why


def test_where_the_file_is(tmp_path: Path) -> None:
    assert tuned.location({"RINGTREE_TOPOLOGY": "/a/b.json", "XDG_CONFIG_HOME": "/c"}) == "/a/b.json"
    assert tuned.location({"XDG_CONFIG_HOME": "/c"}) == "/c/ringtree/machine.json"
    assert tuned.location({"HOME": "/me"}) == "/me/.config/ringtree/machine.json"
    assert tuned.location({"HOME": "/"}) == "/.config/ringtree/machine.json"
    assert tuned.parameters_here({"XDG_CONFIG_HOME": str(tmp_path)}) is None


NETWORK = {"latency_s": 1e-3, "bandwidth_Bps": 1e8, "source": "measured on a Sunday"}
BROKEN = {
    "not JSON": "{",
    "a list": "[]",
    "nested": "[" * 100_000,
    "no parameters": '{"name": "x", "ranks": 1, "nodes": ["rank0"], "links": []}',
    "bytes": "\x00\x01",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_one_line(
    text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text)
    monkeypatch.setenv(tuned.VARIABLE, str(path))
    assert all("by built-in cost parameters" in why for _, why in ringtree.spawn(picked, 2))
    stderr = capfd.readouterr().err.splitlines()
    assert (
        len(stderr) == 1
        and stderr[0].startswith(f"ringtree: {path}: ")
        and "built-in cost parameters are used" in stderr[0]
    )


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"version": 2}, "version 2 of the cost parameters; expected 1"),
        ({"machine": {"cpu": "Another", "cores": 999}}, "of another machine, 999 cores of Another; this is "),
        ({"machine": "mine"}, "of another machine, which it does not name"),
        ({"figures": {}}, "lacks 'call_s'"),
        ({"figures": {**tuned.as_json(PARAMETERS), "call_s": "1"}}, "call_s is the text '1'; expected a number"),
        ({"figures": {**tuned.as_json(PARAMETERS), "call_s": True}}, "call_s is 'True'; expected a number"),
        ({"figures": {**tuned.as_json(PARAMETERS), "copy_Bps": "12345"}}, "copy_Bps is .*; expected a list of numbers"),
        ({"figures": {**tuned.as_json(PARAMETERS), "copy_Bps": [[]] * 5}}, "copy_Bps is '..'; expected a number"),
        ({"figures": {**tuned.as_json(PARAMETERS), "copy_Bps": [1, 2]}}, "copy_Bps is .* expected 5 numbers"),
        ({"figures": {**tuned.as_json(PARAMETERS), "latency_s": -1}}, "latency_s is -1; expected 0 to 1 second"),
        (
            {"figures": {**tuned.as_json(PARAMETERS), "corrections": [["reduce", "flat", 4, 8, 0]]}},
            "correction .* factor",
        ),
        (
            {"figures": {**tuned.as_json(PARAMETERS), "corrections": 3}},
            "corrections are 3; expected a list; expected what `ringtree tune` writes",
        ),
        ({"figures": [1]}, "figures is '.1.'; expected an object"),
        ({"ranks": None}, "ranks is 'None'; expected a list of numbers of ranks"),
        ({"ranks": "ab"}, "ranks is the text 'ab'; expected a list of numbers of ranks"),
        ({"ranks": [2.5]}, "a number of ranks is '2.5'; expected a whole number"),
        ({"date": "\x1b[2J"}, "is no short line of text"),
        ({"network": 3}, "network is '3'; expected what `ringtree tune` writes"),
        ({"network": {"latency_s": 1, "source": "x"}}, "lacks 'bandwidth_Bps'"),
        ({"network": {"latency_s": 0, "bandwidth_Bps": 1e9, "source": "x"}}, "network latency_s is 0.0; expected more"),
        ({"network": {"latency_s": 1, "bandwidth_Bps": 1e99, "source": "x"}}, "bandwidth_Bps is 1e.99; expected 1 to"),
        ({"network": NETWORK | {"latency_s": "x"}}, "network latency_s is the text 'x'; expected a number"),
        ({"network": NETWORK | {"message_s": -1}}, "network message_s is -1.0; expected 0 to 1 second"),
        ({"network": NETWORK | {"hosts": 2}}, "network hosts is '2'"),
        ({"network": NETWORK | {"hosts": [0, 2]}}, "network hosts is '.0, 2.'"),
        ({"machine": {"cpu": "a\nb", "cores": 1}}, "1 cores of a..b; this is "),
    ],
)
def test_parameters_of_no_use_here_are_refused(changes: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=why) as refusal:
        tuned.read(written(tmp_path / "machine.json", **changes))
    assert "\n" not in str(refusal.value)


def test_a_pipe_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="a pipe; expected what"):
        tuned.read(tmp_path / "pipe")


def test_a_file_that_is_named_must_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(tuned.VARIABLE, str(tmp_path / "none.json"))
    assert tuned.parameters_here() is None and tuned.parameters_here() is None
    stderr = capfd.readouterr().err
    assert stderr.count("\n") == 1 and "none.json: no such file; expected what" in stderr
    monkeypatch.setenv(tuned.VARIABLE, "x\033[31m")
    assert tuned.parameters_here() is None and "\033" not in capfd.readouterr().err


PROGRAM = """
import os, ringtree
if os.environ["RINGTREE_RANK"] != "0":
    os.environ["RINGTREE_TOPOLOGY"] = os.environ["OTHER"]
comm = ringtree.init(timeout_s=60)
print(comm.chosen("all_reduce", 1 << 14).part.program.name, int(comm.all_reduce([1])[0]))
"""


@pytest.mark.parametrize("other", ["another", *(pytest.param(o, marks=pytest.mark.slow) for o in ("broken", "none"))])
def test_ranks_with_different_files_take_rank_zeros(other: str, here: Path, tmp_path: Path) -> None:
    if other != "none":
        (tmp_path / other).write_text(here.read_text().replace("0.001", "1e-09") if other == "another" else "{")
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "ringtree.cli", "run", "-n", "3", str(tmp_path / "program.py")],
        env=os.environ | {"OTHER": str(tmp_path / other)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert [line.split("] ")[-1] for line in done.stdout.splitlines()] == ["one_shot 3"] * 3
    assert not done.stderr


def test_a_broken_file_is_reported_by_rank_zero_alone(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "program.py").write_text("import ringtree; ringtree.init(); ringtree.init()")
    done = subprocess.run(
        [sys.executable, "-m", "ringtree.cli", "run", "-n", "3", str(tmp_path / "program.py")],
        env=os.environ | {tuned.VARIABLE: str(tmp_path / "broken.json")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert len(done.stderr.splitlines()) == 1 and "broken.json: not JSON" in done.stderr
