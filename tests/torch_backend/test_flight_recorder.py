"""The flight recorder's dumps, read by torch's own analyser."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr
from datetime import timedelta
from io import StringIO
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace

import pytest

from ringtree.cli import main
from ringtree.runtime.communicator.communicator import Communicator
from tests.torch_backend.conftest import Worlds
from tests.torch_backend.faults import JOIN_S, TIMEOUT_S, fresh, hurry, run, stay_away
from tests.torch_backend.forked import context


def _fails(rank: int, how: str) -> None:
    import torch
    import torch.distributed as dist

    n, x = dist.get_world_size(), torch.ones(8)
    pair = dist.new_group([0, 1], timeout=timedelta(seconds=JOIN_S))
    _good_calls(rank, n, pair)
    if rank < 2:
        pair.set_timeout(timedelta(seconds=TIMEOUT_S))
    hurry()
    if how == "hang":
        if rank == 1:
            stay_away()
        else:
            dist.all_reduce(x)
    elif how == "hang in a group of two":
        if rank == 0:
            dist.all_reduce(x, group=pair)
        else:
            stay_away()
    elif how == "operation":
        dist.broadcast(x, 0) if rank == 1 else dist.all_reduce(x)
    elif how == "size":
        dist.all_reduce(torch.ones(5) if rank == 1 else x)
    elif how == "message":
        if rank == 1:
            dist.recv(x, 0)
        else:
            stay_away()
    elif how == "dead":
        if rank == 1:
            os._exit(7)
        dist.all_reduce(x)


def _good_calls(rank: int, n: int, pair: object) -> None:
    """Calls of every kind, also uneven ones, which the analyser must not take for a mistake."""
    import torch
    import torch.distributed as dist

    x, rows = torch.ones(4), torch.ones(n)
    dist.all_gather([torch.empty(4) for _ in range(n)], x)
    dist.all_gather([torch.empty(r + 1) for r in range(n)], torch.ones(rank + 1))
    dist.all_gather_into_tensor(torch.empty(4 * n), x)
    dist.reduce_scatter(torch.empty(4), [x] * n)
    dist.reduce_scatter_tensor(torch.empty(1), rows)
    dist.all_to_all_single(torch.empty(n), rows)
    dist.all_to_all([torch.empty(1) for _ in range(n)], list(rows.split(1)))
    dist.gather(x, [torch.empty(4) for _ in range(n)] if rank == 0 else None)
    dist.scatter(torch.empty(4), [x] * n if rank == 0 else None)
    dist.reduce(x, 0)
    dist.broadcast_object_list([rank], 0)
    dist.all_gather_object([None] * n, "a" * rank)
    dist.barrier()
    work = dist.all_reduce(x, async_op=True)
    right, left = (rank + 1) % n, (rank - 1) % n
    sent, received = dist.isend(x, right, tag=3), dist.irecv(torch.empty(4), left, tag=3)
    received.wait()
    sent.wait()
    work.get_future().then(lambda _: dist.barrier()).wait()
    if rank < 2:
        dist.all_reduce(x, group=pair)


def _analysed(folder: Path, *options: str) -> str:
    """The analyser's output for the dumps."""
    process = fresh(_analyse, str(folder / "fr"), *options)
    process.start()
    process.join()
    report = (folder / "fr.txt").read_text()
    assert process.exitcode == 0, report
    return report


def _analyse(folder: str, *options: str) -> None:
    with open(folder + ".txt", "w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    from torch.distributed.flight_recorder.fr_trace import main

    main([folder, *options])


CASES = {
    "hang": ["Not all ranks joining", "group info: 0:default_pg", "collective: gloo:all_reduce", "missing ranks: {1}"],
    "hang in a group of two": ["Not all ranks joining", "collective: gloo:all_reduce", "missing ranks: {1}"],
    "operation": ["Culprit rank 1", "'all_reduce' does not match found collective type: 'broadcast'"],
    "size": ["Culprit rank 1", "SIZE_OR_SYNTAX_MISMATCH", "'[[8]]' does not match found input sizes: '[[5]]'"],
    "message": ["Not all ranks joining", "0->1, tag 0", "collective: gloo:recv 1<-0", "missing ranks: {0}"],
}

EXPLAINED = {
    "hang": "rank 1 never came to all_reduce(float32 [8]), sequence number",
    "hang in a group of two": "rank 1 never came to all_reduce(float32 [8]), sequence number",
    "operation": "rank 0 called all_reduce(float32 [8]) and rank 1 called broadcast(float32 [8]) as sequence number",
    "size": "rank 1 called all_reduce(float32 [5]) and ranks 0, 2, 3 called all_reduce(float32 [8]) as sequence number",
    "message": "rank 0 made no send for recv(float32 [8]), message 1 of 0: 0->1, tag 0",
}
"""What `ringtree explain` says first of each."""


@pytest.fixture(scope="module")
def hung(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of four ranks of which one never came."""
    folder = tmp_path_factory.mktemp("hung")
    run(4, folder, _fails, "hang")
    return folder


@pytest.mark.parametrize("how", CASES)
def test_the_analyser_names_the_culprit_and_nothing_else(
    request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    if how == "hang":
        tmp_path = request.getfixturevalue("hung")
    else:
        run(4 if how == "size" else 2, tmp_path, _fails, how)
    report = _analysed(tmp_path)
    for words in CASES[how]:
        assert words in report, report
    assert report.count("group info") == 1, report
    assert main(["explain", str(tmp_path / "fr")]) == 0
    explained = capsys.readouterr().out
    assert "first divergence: " + EXPLAINED[how] in explained and "\nalso: " not in explained, explained


def test_a_dead_rank_leaves_no_dump(tmp_path: Path) -> None:
    stories, _ = run(3, tmp_path, _fails, "dead")
    assert sorted(p.name for p in (tmp_path / "fr").iterdir()) == ["rank.0.json", "rank.2.json", "rank_0", "rank_2"]
    assert "missed FR dumps from ranks ({1})" in _analysed(tmp_path, "--allow-incomplete-ranks")
    for rank, story in stories.items():
        assert f"({tmp_path}/fr/rank_{rank})" in story.text


def test_a_dump_as_json(hung: Path) -> None:
    dump = json.loads((hung / "fr/rank.0.json").read_text())
    assert dump["version"] == "2.10"
    assert dump["pg_config"]["0"] == {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}
    last = dump["entries"][-1]
    expected = {
        "process_group": ["0", "default_pg"],
        "profiling_name": "gloo:all_reduce",
        "input_sizes": [[8]],
        "output_sizes": [[8]],
        "input_dtypes": ["Float"],
        "output_dtypes": ["Float"],
        "state": "started",
        "retired": True,
        "is_p2p": False,
        "timeout_ms": int(TIMEOUT_S * 1000),
    }
    assert {key: last[key] for key in expected} == expected
    assert last["time_created_ns"] <= last["time_discovered_started_ns"] < time.time_ns()
    assert all(e["state"] == "completed" for e in dump["entries"][:-1])
    away = json.loads((hung / "fr/rank.1.json").read_text())
    frames = [frame["name"] for stack in away["stacks"] for frame in stack["frames"]]
    assert "_fails" in frames  # where the rank is that did not come


def test_a_dump_that_cannot_be_written_is_none(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from ringtree.torch_backend.flight import dump as flight_dump

    for prefix, why in (("/", "has an empty name"), ("/proc/none/rank_", "No such file or directory")):
        monkeypatch.setenv("TORCH_FR_DUMP_TEMP_FILE", prefix)
        assert flight_dump.dump(0) is None
        line = capfd.readouterr().err
        assert line.startswith(f"ringtree: rank 0: the flight recorder's dump {prefix}0 is not written: ")
        assert why in line and line.count("\n") == 1


def _dumps_longer_than_may_be(complaints: Connection, prefix: str) -> None:
    import resource

    from ringtree.torch_backend.flight.dump import dump

    os.environ["TORCH_FR_DUMP_TEMP_FILE"] = prefix
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    with redirect_stderr(StringIO()) as stderr:
        assert dump(0) is None
    complaints.send(stderr.getvalue())


def test_a_dump_without_room_leaves_nothing_of_it(tmp_path: Path) -> None:
    ours, theirs = context().Pipe(duplex=False)
    process = fresh(_dumps_longer_than_may_be, theirs, f"{tmp_path}/rank_")
    process.start()
    theirs.close()
    why = "File too large"
    assert ours.recv() == f"ringtree: rank 0: the flight recorder's dump {tmp_path}/rank_0 is not written: {why}\n"
    process.join()
    assert process.exitcode == 0 and not list(tmp_path.iterdir())


def test_a_dump_takes_the_place_of_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ringtree.torch_backend.flight import dump as flight_dump

    victim, folder = tmp_path / "victim", tmp_path / "dumps"
    victim.write_text("kept")
    folder.mkdir()
    for name in ("rank_0", "rank.0.json", f".{os.getpid()}.part"):
        (folder / name).symlink_to(victim)
    monkeypatch.setenv("TORCH_FR_DUMP_TEMP_FILE", f"{folder}/rank_")
    assert flight_dump.dump(0) == folder / "rank_0"
    assert victim.read_text() == "kept" and not (folder / "rank_0").is_symlink()


ENDS_WHILE_IT_WRITES = """
import os, threading, time
from ringtree.torch_backend.flight.dump import dump
replace, begun = os.replace, threading.Event()
os.replace = lambda *paths: (begun.set(), time.sleep(0.3), replace(*paths))
threading.Thread(target=dump, args=(0,), daemon=True).start()
begun.wait()
"""


def test_a_process_that_ends_leaves_no_half_of_a_dump(tmp_path: Path) -> None:
    environment = os.environ | {"TORCH_FR_DUMP_TEMP_FILE": f"{tmp_path}/rank_"}
    subprocess.run([sys.executable, "-c", ENDS_WHILE_IT_WRITES], env=environment, check=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rank.0.json", "rank_0"]


def test_how_many_operations_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from ringtree.torch_backend.flight.recorder import _size

    for text, size in {"": 2000, "7": 7, "0": 0, "-5": 0, "9" * 30: sys.maxsize}.items():
        monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", text)
        assert _size() == size
    monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", "many")
    with pytest.raises(ValueError, match="TORCH_FR_BUFFER_SIZE is 'many'; expected a number"):
        _size()


def test_messages_of_ever_new_tags_are_counted_in_so_many_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from ringtree import spawn
    from ringtree.torch_backend.flight import recorder

    def rank(comm: Communicator) -> tuple[list[int], int]:
        part = recorder.FlightRecorder(comm, "ringtree", 1.0, lambda *_: None)
        turns = [part.begin_message("send", [torch.ones(1)], 0, tag).turn for tag in (7, 8, 7, 1, 7, 2, 3, 7, 8)]
        return turns, len(part.channels)

    monkeypatch.setattr(recorder, "MOST_CHANNELS", 3)
    assert spawn(rank, 1) == [([1, 1, 2, 1, 3, 1, 1, 4, 1], 3)]


def _refused_messages() -> list[tuple[str, int, int, str]]:
    """The messages of a new group on this rank, after some that were refused: operation, turn, number, state."""
    import torch
    import torch.distributed as dist

    from ringtree.torch_backend.flight.dump import document

    group, rank, sparse = dist.new_group([0, 1]), dist.get_rank(), torch.eye(2).to_sparse()

    def call(x: torch.Tensor) -> None:
        dist.send(x, 0, group=group) if rank else dist.recv(x, 1, group=group)

    for _ in range(2):
        with pytest.raises(TypeError, match="got a sparse_coo tensor"):
            call(sparse)
    call(torch.ones(4))
    with pytest.raises(ValueError, match="got 2 tensors"):
        group.send([sparse, sparse], 0, 0) if rank else group.recv([sparse, sparse], 1, 0)
    call(torch.ones(4))
    entries = [e for e in document()["entries"] if e["process_group"][0].startswith(f"{group.group_name}: ")]
    return [(e["profiling_name"], e["collective_seq_id"], e["op_id"], e["state"]) for e in entries]


def test_a_refused_message_is_none(worlds: Worlds) -> None:
    """It leaves no record and no number: the next message has the number that it has on the other rank."""
    received, sent = worlds(2).run(_refused_messages)
    assert received == [("gloo:recv 0<-1", turn, turn, "completed") for turn in (1, 2)]
    assert sent == [("gloo:send 1->0", turn, turn, "completed") for turn in (1, 2)]


def _without_its_outputs() -> list[tuple[int, str]]:
    """The collectives of a new group on this rank, whose calls raise on rank 1 when they have ended on both."""
    import torch
    import torch.distributed as dist

    from ringtree.torch_backend.calls.collectives import _ALL_REDUCE as ALL_REDUCE
    from ringtree.torch_backend.flight.dump import document

    group, x, opts = dist.new_group([0, 1]), torch.ones(3), SimpleNamespace(asyncOp=False)

    def refuse() -> None:
        if dist.get_rank() == 1:
            raise RuntimeError("no copy")

    def launch() -> None:
        group.launch("all_reduce", opts, [x], [x], lambda comm, _: comm.all_reduce(x, out=x), refuse)

    def launch_again() -> None:
        group.launch_again("all_reduce", opts, [x], [x], ALL_REDUCE, x, x, "sum", -1, group._all_reduce, refuse)

    dist.all_reduce(x, group=group)
    for call in (launch, launch_again):
        if dist.get_rank() == 1:
            with pytest.raises(RuntimeError, match="no copy"):
                call()
        else:
            call()
    dist.barrier(group)
    entries = [e for e in document()["entries"] if e["process_group"][0] == group.group_name]
    return [(e["collective_seq_id"], e["state"]) for e in entries]


def test_a_call_whose_outputs_cannot_be_written_keeps_its_number(worlds: Worlds) -> None:
    """The other rank counts it, too."""
    expected = [(number, "completed") for number in (1, 2, 3, 4)]
    assert worlds(2).run(_without_its_outputs) == [expected, expected]


def test_a_message_whose_tensor_cannot_be_filled_keeps_its_number() -> None:
    """The other rank counts it, too."""
    import torch

    from ringtree import spawn
    from ringtree.runtime.communicator.messages.work import Ended
    from ringtree.torch_backend.flight import recorder
    from ringtree.torch_backend.works.callbacks import Callbacks
    from ringtree.torch_backend.works.completion import Completions
    from ringtree.torch_backend.works.under_way import UnderWay
    from ringtree.torch_backend.works.work import Pending, first_ended

    def refuse() -> None:
        raise RuntimeError("no copy")

    def rank(comm: Communicator) -> tuple[list[int], str, bool]:
        part, x = recorder.FlightRecorder(comm, "ringtree", 1.0, lambda *_: None), [torch.ones(1)]
        entry, under_way = part.begin_message("recv", x, 0, 7), UnderWay(Callbacks())
        work = Pending(Ended(None), x, entry, under_way, Completions(first_ended), None, refuse)
        error = str(work.exception())
        return [entry.turn, part.begin_message("recv", x, 0, 7).turn], error, entry in recorder.RING

    assert spawn(rank, 1) == [([1, 2], "no copy", True)]
