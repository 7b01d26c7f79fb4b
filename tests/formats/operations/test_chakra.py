"""Chakra execution traces: nodes as ASTRA-sim has them, communicators, what is written reads back, and broken files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.formats import FormatError
from ringtree.formats.operations import chakra, format_of, load
from ringtree.formats.operations.communicators import read_communicators
from ringtree.formats.operations.wire import message, packed_varint
from ringtree.ir.operations import CollectiveCall, GraphBuilder, OperationKind
from tests.formats.operations.test_goal import rows

COMP, SEND, RECV, COLL, METADATA = 4, 5, 6, 7, 1
ALL_REDUCE, ALL_GATHER, BROADCAST = 0, 2, 5
Given = dict[str, tuple[int, int | bytes | str | float]]
SIZE, TAG, SOURCE, TARGET, KIND = 9, 7, 7, 7, 9  # the fields of an attribute that ASTRA-sim's own files use


def node(id_: int, type_: int, *deps: int, micros: int = 0, inputs: str = "", **attributes: object) -> bytes:
    """A node with attributes as (field, value), deps packed as protobuf packs them."""
    given = [(10, message((1, name), value)) for name, value in attributes.items()]  # type: ignore[arg-type]
    packed = b"".join(map(packed_varint, deps))
    return message(
        (1, id_), (2, f"node {id_}"), (3, type_), (5, packed), (7, micros), (8, message((1, inputs))), *given
    )


def trace(folder: Path, *ranks: Sequence[bytes], name: str = "job") -> Path:
    """Writes a file for each rank, and returns the first."""
    for rank, nodes in enumerate(ranks):
        data = [message((1, "0.0.4")), *nodes]
        (folder / f"{name}.{rank}.et").write_bytes(b"".join(packed_varint(len(d)) + d for d in data))
    return folder / f"{name}.0.et"


def coll(id_: int, type_: int, nbytes: int, *deps: int, **more: object) -> bytes:
    return node(id_, COLL, *deps, comm_type=(KIND, type_), comm_size=(SIZE, nbytes), **more)


def test_messages_and_computations(tmp_path: Path) -> None:
    send = node(9, SEND, 3, comm_size=(SIZE, 64), comm_dst=(TARGET, 1), comm_tag=(TAG, 5), is_cpu_op=(27, 0))
    path = trace(
        tmp_path,
        [node(3, COMP, micros=7), send, node(4, COMP, 9, micros=1, is_cpu_op=(27, 1)), node(5, COMP, stream=(9, 20))],
        [node(1, RECV, comm_size=(SIZE, 64), comm_src=(SOURCE, 0), comm_tag=(TAG, 5))],
    )
    assert format_of(path) == format_of(tmp_path / "job") == "a Chakra execution trace"
    graph = load(tmp_path / "job.1.et")  # any of its files stands for the trace
    assert (graph.name, graph.ranks, len(graph)) == ("job", 2, 5)
    assert [OperationKind(k).name for k in graph.kind] == ["COMPUTE", "SEND", "COMPUTE", "COMPUTE", "RECEIVE"]
    assert graph.compute_s.tolist() == pytest.approx([7e-6, 0, 1e-6, 0, 0])
    assert (graph.nbytes[1], graph.peer[1], graph.tag[1], graph.peer[4], graph.tag[4]) == (64, 1, 5, 0, 5)
    assert list(zip(graph.after.tolist(), graph.before.tolist(), strict=True)) == [(1, 0), (2, 1)]
    assert len(set(graph.processor[:4].tolist())) == 4  # GPU, messages, CPU, a stream


def test_collectives_are_matched_by_their_order_in_a_communicator(tmp_path: Path) -> None:
    pair = {"pg_name": (29, "7")}
    path = trace(
        tmp_path,
        [coll(0, ALL_REDUCE, 100), coll(1, ALL_GATHER, 8, **pair), coll(2, BROADCAST, 50, 0)],
        [coll(5, ALL_REDUCE, 100), coll(6, BROADCAST, 50)],
        [coll(5, ALL_GATHER, 8, **pair), coll(7, ALL_REDUCE, 100, pg_name=(29, "0")), coll(8, BROADCAST, 50)],
    )
    groups = tmp_path / "groups.json"
    groups.write_text('{"7": [2, 0]}')
    graph = load(path, read_communicators(str(groups)))
    assert graph.collectives == (
        CollectiveCall("all_reduce", (0, 1, 2), 100),
        CollectiveCall("broadcast", (0, 1, 2), 50, 0),
        CollectiveCall("all_gather", (2, 0), 16),
    )
    assert graph.tag.tolist() == [0, 2, 1, 0, 1, 2, 0, 1]
    with pytest.raises(FormatError, match="nothing names the ranks of communicator '7': expected --groups FILE"):
        load(path)
    groups.write_text('{"7": [2, 0], "7": [0, 1]}')
    with pytest.raises(FormatError, match="the name '7' stands twice"):
        read_communicators(str(groups))


def test_communicators_of_a_trace_of_pytorch(tmp_path: Path) -> None:
    named = '[\'[{"pg_name": "7", "ranks": [1, 0]}, {"pg_name": "8", "ranks": []}]\']'
    ranks = [[node(0, METADATA, inputs=named), *(coll(k, ALL_REDUCE, 8, pg_name=(29, str(k))) for k in (7, 8))]] * 2
    assert [call.members for call in load(trace(tmp_path, *ranks)).collectives] == [(1, 0), (0, 1)]


def test_a_call_on_the_cpu_is_a_computation_and_its_work_on_the_gpu_a_collective(tmp_path: Path) -> None:
    """PyTorch's traces have both; only the second has a size."""
    cpu = {"is_cpu_op": (27, 1)}
    nodes = [node(0, COLL, micros=85, **cpu), node(1, SEND, 0, micros=3, **cpu), coll(2, ALL_REDUCE, 64, 1)]
    graph = load(trace(tmp_path, nodes))
    assert graph.kind.tolist() == [OperationKind.COMPUTE, OperationKind.COMPUTE, OperationKind.COLLECTIVE]
    assert graph.compute_s.tolist() == pytest.approx([85e-6, 3e-6, 0])


def test_callers_are_waited_for_where_they_can_be(tmp_path: Path) -> None:
    """Node 9 has been left out; in the second trace node 1 calls 2, and waits for it."""

    def called(id_: int, *callers: int) -> bytes:
        return message((1, id_), (3, COMP), (4, b"".join(map(packed_varint, callers))))

    graph = load(trace(tmp_path, [node(1, COMP), called(2, 9, 1), node(3, COMP, 1)]))
    assert list(zip(graph.after.tolist(), graph.before.tolist(), strict=True)) == [(2, 0), (1, 0)]
    graph = load(trace(tmp_path, [node(1, COMP, 2), called(2, 1), node(3, COMP, 1)]))
    assert list(zip(graph.after.tolist(), graph.before.tolist(), strict=True)) == [(0, 1), (2, 0)]


SENT = {"comm_size": (SIZE, 8), "comm_dst": (TARGET, 1)}


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ([[node(0, COMP), node(0, COMP)]], "two nodes have the id 0"),
        ([[node(0, COMP, 4)]], "data_deps on node 4, which is not there"),
        ([[node(0, SEND, comm_size=(SIZE, 8))]], "no comm_dst"),
        ([[node(5, SEND, comm_dst=(TARGET, 0))]], "node 5 has no comm_size; expected a number of 0 or more"),
        ([[node(5, RECV, comm_src=(SOURCE, 0))]], "node 5 has no comm_size"),
        ([[node(5, COLL, comm_type=(KIND, 0))]], "node 5 has no comm_size"),
        (
            [[node(0, SEND, **SENT)]],
            r"has comm_src 0 and comm_dst 1; expected rank 0, whose file it is, and one of 0\.\.0",
        ),
        ([[node(0, SEND, comm_src=(SOURCE, 1), **SENT)], []], "has comm_src 1 and comm_dst 1; expected rank 0"),
        ([[node(0, RECV, comm_size=(SIZE, -5), comm_src=(SOURCE, 0))]], "-5 as comm_size"),
        ([[coll(0, 77, 8)]], r"comm_type 77; expected one of 0\.\.9"),
        ([[coll(0, 0, 8)], []], "collectives of all ranks: 1 on rank 0, 0 on rank 1; expected as many"),
        ([[coll(0, 0, 8)], [coll(0, 0, 9)]], "all_reduce of 8 bytes on rank 0, all_reduce of 9 bytes on rank 1"),
        ([[coll(0, 0, 8)], [coll(0, 2, 8)]], "all_reduce of 8 bytes on rank 0, all_gather of 8 bytes on rank 1"),
        ([[coll(0, 0, 8, involved_dim=(28, message((1, bytes([1, 0])))))]], "involved_dim, not all true"),
        ([[node(0, COMP, duration_s=(3, float("nan")))]], "lasts nan s"),
        ([[node(0, METADATA, inputs="['[{\"pg_name\": 3}]']")]], "process groups without pg_name"),
        ([[node(0, METADATA, inputs='[\'[{"pg_name": "3", "ranks": [9]}]\']')]], r"has ranks \[9\]"),
    ],
)
def test_mistakes_are_one_line(ranks: list[list[bytes]], message: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=message) as error:
        load(trace(tmp_path, *ranks))
    assert "\n" not in str(error.value)


def test_a_barrier_has_no_size(tmp_path: Path) -> None:
    (call,) = load(trace(tmp_path, *[[node(0, COLL, comm_type=(KIND, 9))]] * 2)).collectives
    assert (call.collective, call.nbytes) == ("barrier", 0)


def test_dimensions_that_are_all_involved_are_all_ranks(tmp_path: Path) -> None:
    dims = (28, message((1, bytes([1, 1, 1]))))
    assert len(load(trace(tmp_path, [coll(0, 0, 8, involved_dim=dims)])).collectives) == 1


def test_every_rank_has_a_file(tmp_path: Path) -> None:
    path = trace(tmp_path, [], [], [])
    (tmp_path / "job.1.et").unlink()
    with pytest.raises(FormatError, match=r"job\.1\.et: no such file; expected one for each of 3 ranks"):
        load(path)
    with pytest.raises(FormatError, match=r"none\.0\.et: no such file"):
        load(tmp_path / "none.4.et")


@given(st.binary(min_size=1, max_size=120), st.booleans())
def test_any_bytes_end_in_one_line(tmp_path_factory: pytest.TempPathFactory, data: bytes, headed: bool) -> None:
    path = tmp_path_factory.getbasetemp() / "any.0.et"
    head = message((1, "0.0.4"))
    framed = packed_varint(len(head)) + head + packed_varint(len(data)) + data
    path.write_bytes(framed if headed else data)
    try:
        load(path)
    except FormatError as error:
        assert str(error).startswith(str(path.parent)) and "\n" not in str(error)


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    builder = GraphBuilder()
    work = builder.add(OperationKind.COMPUTE, 0, 4096, processor=1, compute_s=1.23456789e-4)
    send = builder.add(OperationKind.SEND, 0, 2**40, 2, 2**30, 1)
    builder.depend(send, work)
    builder.add(OperationKind.RECEIVE, 2, 2**40, 0, 2**30)
    graph = builder.build("made", 3)
    paths = chakra.write(tmp_path / "made", graph)
    assert [path.name for path in paths] == ["made.0.et", "made.1.et", "made.2.et"]
    back = load(paths[0])
    assert back.compute_s.tolist() == graph.compute_s.tolist()  # to the last bit
    kept = [[row[:5], row[-1]] for row in rows(back)]
    expected = [[row[:5], row[-1]] for row in rows(graph)]
    expected[0][0][2] = 0  # a computation's bytes are for ASTRA-sim alone
    assert kept == expected
    builder.depend(send, work, at_start=True)
    with pytest.raises(ValueError, match="dependencies on starts"):
        chakra.write(tmp_path / "made", builder.build("made", 3))
