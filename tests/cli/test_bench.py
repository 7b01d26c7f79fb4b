"""`ringtree bench`: the table, the record, and that a wrong result does not pass."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ringtree.algorithms import serving
from ringtree.bench import session
from ringtree.bench.predicted import shared_memory
from ringtree.bench.record import bandwidths, read
from ringtree.formats import chrome
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.trace import Event
from ringtree.plan import choose, predict, steps_for
from tests.cli.conftest import Ringtree
from tests.waiting import interruptible

QUICK = ("-w", "1", "--iters", "3")


def table(out: str) -> list[list[str]]:
    """The rows of nccl-tests' table, as anybody's script would pick them."""
    return [line.split() for line in out.splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_collective_is_measured_and_right(ringtree: Ringtree, collective: str) -> None:
    got = ringtree("bench", collective, "-n", "2", "-b", "8", "-e", "4K", "-f", "16", "-r", "1", *QUICK)
    rows = table(got.out)
    assert got.code == 0 and rows
    for row in rows:
        assert row[8] in ("0", "N/A") and row[12] == "0"
    assert "# Out of bounds values : 0 OK" in got.out


def test_the_record_has_measurement_and_machine(ringtree: Ringtree, tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    words = ("all_gather", "-n", "1,3", "-b", "64", "-e", "2K", "-f", "32", "-d", "double", "--algorithm", "all")
    got = ringtree("bench", *words, *QUICK, "--json", str(path))
    record = json.loads(path.read_text())
    assert all(0 < row["predicted_us"] < 1e6 for row in record["rows"])
    assert got.code == 0 and record["machine"]["cores"] >= 1
    assert {(r["ranks"], r["algorithm"]) for r in record["rows"]} == {
        (n, a) for n in (1, 3) for a in serving("all_gather")
    }
    for r in record["rows"]:
        assert (r["collective"], r["dtype"], r["op"], r["root"]) == ("all_gather", "float64", "none", -1)
        assert r["nbytes"] == 8 * r["count"] * r["ranks"]
        assert r["wrong"] == r["in_place_wrong"] == 0 and r["iterations"] == 3
        assert r["algbw_GBps"] == pytest.approx(r["nbytes"] / r["time_us"] / 1000)
        assert r["busbw_GBps"] == pytest.approx(r["algbw_GBps"] * (r["ranks"] - 1) / r["ranks"])
        assert len(r["program"]) == 12


def test_a_trace_has_one_call_of_each_case(ringtree: Ringtree, tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    words = ("all_gather", "-n", "2,3", "-b", "96", "-e", "6K", "-f", "64", "--algorithm", "ring")
    got = ringtree("bench", *words, *QUICK, "--trace", str(path))
    trace = chrome.read(path)
    assert got.code == 0 and trace.ranks == 3
    cases = [(24, 2), (24 * 64, 2), (24, 3), (24 * 64, 3)]
    assert trace.calls == tuple(f"all_gather(float32, count {count}) by ring over {n} ranks" for count, n in cases)
    sends = trace.take(trace.kind == Event.SEND)
    for call, nbytes in enumerate([48, 48 * 64, 32 * 2, 32 * 64 * 2]):  # of each rank: all blocks but one
        assert sends.nbytes[(sends.call == call) & (sends.rank == 1)].sum() == nbytes
    for call in range(3):  # one after another
        assert trace.end_s[trace.call == call].max() < trace.start_s[trace.call == call + 1].min()
    barrier = ringtree("bench", "barrier", "-n", "2", *QUICK, "--trace", str(path))
    assert barrier.code == 0 and len(chrome.read(path).messages()[0]) > 0


def test_symmetric_arrays_are_planned_and_predicted_as_such(ringtree: Ringtree, tmp_path: Path) -> None:
    """Each size is of another kind, and its algorithm is the first call's, which nothing else may decide before."""
    for symmetric in (False, True):
        file = tmp_path / f"{symmetric}.json"
        sizes = ("-b", "16K", "-e", "64K", "-f", "2")
        ringtree("bench", "all_reduce", "-n", "2", *sizes, *QUICK, "-R", str(2 * symmetric), "--json", str(file))
        memory = replace(shared_memory(2), symmetric=symmetric)
        for row in json.loads(file.read_text())["rows"]:
            candidate = choose("all_reduce", 2, row["nbytes"], memory=memory)
            assert row["algorithm"] == candidate.algorithm, (symmetric, row["nbytes"])
            steps = steps_for(row["algorithm"], "all_reduce", 2, None, row["nbytes"], memory)
            quote = predict(row["algorithm"], "all_reduce", 2, None, row["nbytes"], steps, memory)
            assert row["predicted_us"] == pytest.approx(quote.seconds * 1e6)


def test_one_rank_is_one_process(ringtree: Ringtree) -> None:
    got = ringtree("bench", "all_reduce", "-n", "1", "-e", "8", *QUICK)
    assert got.code == 0 and ": all_reduce, 1 process, algorithm " in got.out


def test_threads_symmetric_memory_and_averages(ringtree: Ringtree) -> None:
    for words in (("-t",), ("-R", "2"), ("-a", "0"), ("-a", "1"), ("-i", "32"), ("-c", "0")):
        got = ringtree("bench", "all_reduce", "-n", "2", "-b", "32", "-e", "64", *words, *QUICK)
        assert got.code == 0 and len(table(got.out)) >= 1
    assert table(got.out)[0][8] == "N/A"


def test_a_wrong_element_fails_the_command(ringtree: Ringtree, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoiled(*args: object, **kwargs: object) -> object:
        for row in measured(*args, **kwargs):  # type: ignore[arg-type]
            row["wrong"] = 2
            yield row

    measured = session.rows
    monkeypatch.setattr(session, "rows", spoiled)
    got = ringtree("bench", "all_reduce", "-n", "1", "-b", "8", "-e", "8", *QUICK)
    assert got.code == 1
    assert "# Out of bounds values : 2 FAILED" in got.out and "2 elements were wrong" in got.err


def interrupted(rows: int, *words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a bench that gets Ctrl-C once so many of its rows are printed."""
    program = [sys.executable, "-m", "ringtree.cli", "bench", *words]
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"}, preexec_fn=interruptible,  # noqa: PLW1509  # it takes no lock
    ) as job:  # fmt: skip
        assert job.stdout is not None
        lines: list[str] = []
        while len(table("".join(lines))) < rows or not any(line.startswith("#        (B)") for line in lines):
            lines.append(job.stdout.readline())
            assert lines[-1], job.communicate()
        job.send_signal(signal.SIGINT)
        out, err = job.communicate()
    return job.returncode, "".join(lines) + out, err


def test_an_interrupted_bench_keeps_what_it_measured(tmp_path: Path) -> None:
    record, trace = tmp_path / "rows.json", tmp_path / "trace.json"
    files = ("--json", str(record), "--trace", str(trace))
    code, out, err = interrupted(2, "all_reduce", "-n", "2", "-b", "8", "-e", "64M", "-f", "8", *files)
    done = read(record)
    rows = len(done["rows"])
    assert code == 130 and 2 <= rows < 8 and done["lacking"] == 8 - rows
    assert [row["nbytes"] for row in done["rows"]] == [8 * 8**n for n in range(rows)]
    assert len(table(out)) in (rows - 1, rows)
    assert err == f"ringtree bench: cut off after {rows} of 8 cases: written to {record} and {trace}\n"
    assert chrome.read(trace).facts["name"] == f"bench all_reduce, without {8 - rows} of 8 cases"


def test_a_bench_that_is_interrupted_at_once_writes_nothing(tmp_path: Path) -> None:
    long = ("-b", "64M", "-e", "64M", "--iters", "1000", "--json", str(tmp_path / "rows.json"))
    code, _, err = interrupted(0, "all_reduce", "-n", "2", *long)
    assert code == 130 and err == "ringtree bench: cut off after 0 of 1 cases: nothing is written\n"
    assert not list(tmp_path.iterdir())


def test_a_whole_record_lacks_nothing(ringtree: Ringtree, tmp_path: Path) -> None:
    assert ringtree("bench", "barrier", *QUICK, "--json", str(tmp_path / "rows.json")).code == 0
    assert "lacking" not in read(tmp_path / "rows.json")


def test_bandwidths_are_nccl_tests() -> None:
    """Two published lines: AWS, 8 H100, all_reduce; GCP A3, 16 ranks, all_gather."""
    assert bandwidths("all_reduce", 8, 134217728, 592.8) == pytest.approx((226.41, 396.2), abs=0.03)
    assert bandwidths("all_gather", 16, 8388608, 784.9) == pytest.approx((10.69, 10.02), abs=0.01)
    assert bandwidths("barrier", 4, 0, 3.0) == (0.0, 0.0)


def saved(ringtree: Ringtree, path: Path, *words: str) -> Path:
    """A file with what `show` prints."""
    path.write_text(ringtree("show", *words).out)
    return path


def test_a_file_runs_beside_the_chosen_algorithm(ringtree: Ringtree, tmp_path: Path) -> None:
    path = saved(ringtree, tmp_path / "mine.txt", "chain", "--collective", "reduce", "-n", "3", "--root", "2")
    record = tmp_path / "rows.json"
    words = ("-b", "8", "-e", "2K", "-f", "16", *QUICK, "--json", str(record))
    got = ringtree("bench", "--schedule", str(path), *words)
    assert got.code == 0, got.err
    assert "reduce, 3 processes, algorithm mine.txt beside auto" in got.out
    rows = table(got.out)
    assert [(row[0], row[4], row[8], row[12]) for row in rows] == [
        (size, "2", "0", "0") for size in ("8", "128", "2048") for _ in (1, 2)
    ]
    assert [row[-2] == "mine.txt" for row in rows] == [True, False] * 3
    written = json.loads(record.read_text())["rows"]
    assert [r["algorithm"] == "mine.txt" for r in written] == [True, False] * 3
    assert all(0 < r["predicted_us"] < 1e6 for r in written)
    again = ringtree(
        "bench", "reduce", "-n", "3", "-r", "2", "--schedule", str(path), "--algorithm", "chain", "-t", *words[:6]
    )
    digests = {row[-1] for row in table(again.out)}
    assert again.code == 0 and len(digests) >= 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-n", "4"], "mine.txt is for 3 ranks, and there are to be 4: expected -n 3"),
        (["all_reduce"], "mine.txt is for broadcast, not for all_reduce"),
        (["-r", "1"], "mine.txt has root 0; leave -r 1 out"),
        (["-o", "dance"], "invalid choice"),
    ],
)
def test_a_file_for_something_else_is_one_line(
    ringtree: Ringtree, tmp_path: Path, words: list[str], message: str
) -> None:
    path = saved(ringtree, tmp_path / "mine.txt", "binomial", "--collective", "broadcast", "-n", "3")
    got = ringtree("bench", "--schedule", str(path), *words)
    assert got.code != 0 and message in got.err and got.err.count("\n") == 1


def test_a_file_that_is_not_proved_does_not_run(ringtree: Ringtree, tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("schedule mine broadcast: 3 ranks, 1 chunks, root 0\nonce: 0 data[0] -> 1\n")
    got = ringtree("bench", "--schedule", str(path))
    assert got.code == 1 and "rank 2 chunk 0: expected rank 0's chunk 0" in got.err and got.out == ""
    assert "required: COLLECTIVE, one of all_reduce" in ringtree("bench").err
