"""`ringtree doctor` as a whole, on this host."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringtree.cli import main
from tests.cli.conftest import Ringtree
from tests.runtime.hosts.lab import missing

COMMAND = [sys.executable, "-m", "ringtree.cli", "doctor"]
NAMES = {
    "software": {"python", "kernel", "ringtree", "torch"},
    "resources": {"cores", "load", "memory", "/dev/shm", "descriptors", "locked memory", "processes"},
    "network": {"chosen"},
    "wires": {"wire", "tcp", "ucx"},
    "gpus": {"gpus"},
    "settings": {"tune"},
}
"""Rows that every host has."""


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No file of `ringtree tune`, no variable, and neither torch nor UCX to load, which measures clocks for 0.4 s."""
    for name in [name for name in os.environ if name.startswith("RINGTREE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("RINGTREE_UCX_LIBRARY", "libucp-of-no-host.so")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    yield


def document(text: str) -> dict:  # type: ignore[type-arg]
    return json.loads(text)  # type: ignore[no-any-return]


def rows(found: dict) -> dict[tuple[str, str], dict]:  # type: ignore[type-arg]
    return {(row["section"], row["name"]): row for row in found["hosts"][0]["checks"]}


def test_it_prints_rows_and_what_to_do(ringtree: Ringtree) -> None:
    got = ringtree("doctor")
    assert got.code == 0 and got.err == ""
    lines = got.out.splitlines()
    assert lines[0] == socket.gethostname() and lines[-1].startswith("0 problems, ")
    at = next(n for n, line in enumerate(lines) if line.split()[:2] == ["note", "tune"])
    assert "never run here" in lines[at] and lines[at + 1].strip() == "ringtree tune"


def test_what_was_found_is_printed_where_the_page_cannot_be_written(ringtree: Ringtree) -> None:
    got = ringtree("doctor", "--html", "/dev/full")
    assert got.code == 1 and got.err == "ringtree doctor: /dev/full: No space left on device\n"
    assert got.out.splitlines()[-1].startswith("0 problems, ")


def test_its_json_has_every_row(ringtree: Ringtree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RINGTREE_UCX_LIBRARY")
    found = document(ringtree("doctor", "--json").out)
    assert set(found) == {"form", "problems", "notes", "hosts", "findings", "links"}
    assert (found["form"], found["problems"], found["findings"], found["links"]) == (1, 0, [], None)
    (host,) = found["hosts"]
    assert set(host) == {"host", "name", "ranks", "checks"}
    for section, names in NAMES.items():
        assert names <= {row["name"] for row in host["checks"] if row["section"] == section}
    for row in host["checks"]:
        assert set(row) == {"section", "name", "state", "found", "remedies", "figures"}
        assert row["state"] in ("ok", "note", "problem") and row["found"]
    assert found["notes"] == sum(row["state"] == "note" for row in host["checks"])
    assert rows(found)["resources", "cores"]["figures"]["usable_cores"] == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("env", "name", "words"),
    [
        ({"RINGTREE_WIRE": "smoke"}, "RINGTREE_WIRE", "RINGTREE_WIRE is 'smoke'"),
        ({"RINGTREE_INTERFACE": "eth77"}, "RINGTREE_INTERFACE", "RINGTREE_INTERFACE is 'eth77'"),
        ({"RINGTREE_ADDRESS": "127.0.0.1:port"}, "RINGTREE_ADDRESS", "expected host:port"),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, "ranks",
         "Open MPI started 2 ranks, 1 of them on this host; set RINGTREE_ADDRESS"),
        ({"RANK": "none", "WORLD_SIZE": "2"}, "ranks", "RANK is 'none'; expected a whole number"),
    ],
)  # fmt: skip
def test_a_problem_is_a_row_and_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], env: dict[str, str], name: str, words: str
) -> None:
    for variable, value in env.items():
        monkeypatch.setenv(variable, value)
    assert main(["doctor", "--json"]) == 1
    found = document(capsys.readouterr().out)
    every = [*found["hosts"][0]["checks"], *found["findings"]]
    assert [words in row["found"] for row in every if row["name"] == name and row["state"] == "problem"] == [True]


@pytest.mark.slow
def test_ranks_that_do_not_meet(tmp_path: Path) -> None:
    """Rank 0 shows it in a row, another rank in a line."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    env = {"RINGTREE_WORLD_SIZE": "2", "RINGTREE_ADDRESS": f"127.0.0.1:{port}", "RINGTREE_TIMEOUT": "0.5"}
    for rank, words in (
        (0, "the 2 ranks of ringtree run did not meet: "),
        (1, "ringtree doctor: rank 1 did not join: "),
    ):
        done = subprocess.run(
            COMMAND, capture_output=True, text=True, env={**os.environ, **env, "RINGTREE_RANK": str(rank)}
        )
        assert done.returncode == (rank == 0) and words in (done.stdout if rank == 0 else done.stderr)
        assert "Traceback" not in done.stderr and bool(done.stdout) == (rank == 0)


def test_ranks_of_one_host_have_one_result(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "ringtree.cli", "run", "-n", "2", "-m", "ringtree.cli", "doctor", "--json"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = document("".join(line.removeprefix("[0] ") for line in done.stdout.splitlines()))
    assert [host["ranks"] for host in found["hosts"]] == [[0, 1]] and found["links"] is None
    assert [row["found"] for row in found["findings"]] == ["2 ranks on 1 host met"]
    assert rows(found)["resources", "cores"]["figures"]["usable_cores"] == len(os.sched_getaffinity(0))
    assert not [name for section, name in rows(found) if section == "settings" and name.endswith(("RANK", "JOB"))]


def test_dockers_shared_memory_is_noted() -> None:
    """64 MB at /dev/shm, as Docker mounts them."""
    if why := missing():
        pytest.skip(why)
    mount = "mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mount + '"$@"', "sh", *COMMAND, "--json"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    row = rows(document(done.stdout))["resources", "/dev/shm"]
    assert row["state"] == "note" and row["figures"]["size_bytes"] == 64 << 20
    assert "docker run --shm-size 8g" in row["remedies"] and "ringtree takes its memory elsewhere" in row["found"]


def test_limits_of_a_shell_are_noted() -> None:
    shell = 'ulimit -n 200 && exec "$@"'
    done = subprocess.run(["sh", "-c", shell, "sh", *COMMAND, "--json"], capture_output=True, text=True)
    row = rows(document(done.stdout))["resources", "descriptors"]
    assert row["state"] == "note" and row["figures"]["soft"] == 200 and done.returncode == 0


def test_seconds_are_more_than_none(ringtree: Ringtree) -> None:
    got = ringtree("doctor", "--seconds", "0")
    assert got.code == 1 and got.err == "ringtree doctor: --seconds 0: expected more than 0\n"
