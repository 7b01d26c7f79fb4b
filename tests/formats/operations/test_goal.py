"""GOAL: its grammar as LogGOPSim's txt2bin has it, what is written reads back, and hostile files end in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.formats import FormatError
from ringtree.formats.operations import GOAL, format_of, goal, limits, load
from ringtree.ir.operations import GraphBuilder, OperationGraph, OperationKind

PAIR = """// two ranks
num_ranks 2

rank 0 {
l1: send 1024b to 1 tag 7 cpu 1 nic 0
l2: calc 1500
l2 irequires l1
calc 3 cpu 2
}
/* the second,
   which receives */
rank 1 {
first: recv 1024b from 0 tag 7
then: calc 20
then requires first
}
"""


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_operations_and_what_they_wait_for(tmp_path: Path) -> None:
    path = written(tmp_path / "pair.goal", PAIR)
    graph = load(path)
    assert format_of(path) == "a GOAL schedule" and (graph.name, graph.ranks) == ("pair.goal", 2)
    assert [OperationKind(k).name for k in graph.kind] == ["SEND", "COMPUTE", "COMPUTE", "RECEIVE", "COMPUTE"]
    assert graph.rank.tolist() == [0, 0, 0, 1, 1] and graph.processor.tolist() == [1, 0, 2, 0, 0]
    assert (graph.nbytes[0], graph.peer[0], graph.tag[0], graph.peer[3], graph.tag[3]) == (1024, 1, 7, 0, 7)
    assert graph.compute_s.tolist() == pytest.approx([0, 1.5e-6, 3e-9, 0, 20e-9])
    waits = zip(graph.after.tolist(), graph.before.tolist(), graph.at_start.tolist(), strict=True)
    assert list(waits) == [(1, 0, True), (4, 3, False)]


def test_braces_and_semicolons_may_stand_anywhere(tmp_path: Path) -> None:
    text = "num_ranks 1\nrank 0\n{ l1: calc 5; l2: calc 6 // seven\n l2 requires l1 }"
    graph = goal.read(written(tmp_path / "x", text))
    assert len(graph) == 2 and graph.after.tolist() == [1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("num_ranks 0", "expected 1 to"),
        ("num_ranks 2\nnum_ranks 2", "line 2: .*num_ranks once"),
        ("num_ranks 1\nrank 0 {\n}\nrank 0 {\n}", "line 4: .*each rank once"),
        ("num_ranks 1\nrank 1 {", r"expected a rank of 0\.\.0"),
        ("num_ranks 1\nrank 0 {\ncalc 1", "rank 0 has no end"),
        ("num_ranks 1\nrank 0 {\nl1: jump 1\n}", "line 3: 'l1: jump 1'; expected send, recv"),
        ("num_ranks 1\nrank 0 {\nsend 8b from 0\n}", "expected send … to a rank"),
        ("num_ranks 2\nrank 0 {\nsend 8b to -1 tag 0\n}", r"a rank of 0\.\.1"),
        ("num_ranks 2\nrank 0 {\nrecv 8b from -2 tag 0\n}", r"a rank of 0\.\.1, or from -1: any"),
        ("num_ranks 2\nrank 0 {\nsend 8b to 1 tag -1\n}", "a tag of 0 or more"),
        ("num_ranks 2\nrank 0 {\nrecv 8b from 1 tag 0 cpu -1\n}", "numbers of 0 or more, or tag -1: any"),
        ("num_ranks 1\nrank 0 {\nsend 8b to 1 tag 0\n}", r"a rank of 0\.\.0"),
        ("num_ranks 1\nrank 0 {\nl1: calc 1\nl1: calc 1\n}", "labels that differ"),
        ("num_ranks 1\nrank 0 {\nl1: calc 1\nl1 requires l2\n}", "line 4: 'l2'; expected a label of rank 0"),
        ("num_ranks 1\nrank 0 {\ncalc 1 cpu 1 cpu 1\n}", "once each"),
        ("num_ranks 1\nrank 0 {\ncalc 99999999999999999999\n}", "a number below"),
        ("num_ranks 1\n" + "x" * 5000, "a line of more than 4096 bytes"),
        ("num_ranks 1\nrank 0 {\n\xff: calc 1\n}", "expected send, recv"),
        (b"num_ranks 1\nrank 0 {\n\xff: calc 1\n}", "not text"),
    ],
)
def test_mistakes_are_one_line(text: str | bytes, message: str, tmp_path: Path) -> None:
    path = written(tmp_path / "x.goal", text)
    with pytest.raises(FormatError, match=message) as error:
        goal.read(path)
    assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("comment", ["/*" + "a long licence\n" * 1000 + "*/", "// a licence\n" * 1000])
def test_a_long_comment_may_come_first(tmp_path: Path, mark: str, comment: str) -> None:
    path = written(tmp_path / "x", mark + comment + "num_ranks 3\n")
    assert format_of(path) == GOAL and goal.read(path).ranks == 3


def test_a_comment_may_have_no_end(tmp_path: Path) -> None:
    assert goal.read(written(tmp_path / "x", "num_ranks 3 /* and\nrank 0 {")).ranks == 3


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "text",
    [
        "num_ranks 1\n" + "/*" * 2000 + "\n" + ("/*" * 2000 + "\n") * 500,
        "num_ranks 1" + " " * 4000 + "\n" + (" " * 4000 + "x\n") * 100,
    ],
    ids=["comments", "spaces"],
)
def test_hostile_files_end_soon(text: str, tmp_path: Path) -> None:
    path = written(tmp_path / "x.goal", text)
    assert format_of(path)
    try:
        goal.read(path)
    except FormatError as error:
        assert len(str(error)) < 500


def test_a_file_of_too_much_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(limits, "MOST_OPERATIONS", 3)
    monkeypatch.setattr(limits, "MOST_DEPENDENCIES", 1)
    head = "num_ranks 1\nrank 0 {\n"
    with pytest.raises(FormatError, match="more than 3 operations"):
        goal.read(written(tmp_path / "x", head + "calc 1\n" * 4 + "}"))
    with pytest.raises(FormatError, match="more than 1 dependencies"):
        goal.read(written(tmp_path / "x", head + "l1: calc 1\n" + "l1 requires l1\n" * 2 + "}"))


def rows(graph: OperationGraph) -> list[list[object]]:
    """What each rank does, by its own numbering."""
    place = {row: k for r in range(graph.ranks) for k, row in enumerate(np.flatnonzero(graph.rank == r).tolist())}
    waits: dict[int, list[tuple[int, bool]]] = {}
    for after, before, at_start in zip(
        graph.after.tolist(), graph.before.tolist(), graph.at_start.tolist(), strict=True
    ):
        waits.setdefault(after, []).append((place[before], at_start))
    return [
        [graph.rank[k], graph.kind[k], graph.nbytes[k], graph.peer[k], graph.tag[k], graph.processor[k],
         round(graph.compute_s[k] * 1e9), sorted(waits.get(k, []))]
        for r in range(graph.ranks)
        for k in np.flatnonzero(graph.rank == r).tolist()
    ]  # fmt: skip


@given(st.data())
def test_what_is_written_reads_back(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    ranks, builder = data.draw(st.integers(1, 4)), GraphBuilder()
    of: dict[int, list[int]] = {}
    for _ in range(data.draw(st.integers(0, 12))):
        rank, kind = data.draw(st.integers(0, ranks - 1)), data.draw(st.sampled_from(list(OperationKind)[:3]))
        cpu = data.draw(st.integers(0, 3))
        if kind is OperationKind.COMPUTE:
            row = builder.add(kind, rank, processor=cpu, compute_s=data.draw(st.integers(0, 10**9)) * 1e-9)
        else:
            least = -1 if kind is OperationKind.RECEIVE else 0  # of any
            peer, tag = data.draw(st.integers(least, ranks - 1)), data.draw(st.integers(least, 2**31))
            row = builder.add(kind, rank, data.draw(st.integers(0, 2**40)), peer, tag, cpu)
        for before in of.setdefault(rank, []):
            if data.draw(st.booleans()):
                builder.depend(row, before, data.draw(st.booleans()))
        of[rank].append(row)
    graph = builder.build("made", ranks)
    path = tmp_path_factory.getbasetemp() / "back.goal"
    goal.write(path, graph)
    assert rows(goal.read(path)) == rows(graph)
