"""What is written reads back: our algorithms, searched schedules and random ones as MSCCL XML and MSCCL++ plans, proved
as the file's programs and as the schedule that is raised from them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree import search
from ringtree.algorithms import REGISTRY, build
from ringtree.formats import WRITERS, Imported, NotExpressible, load, text_of
from ringtree.formats.msccl import programs as msccl
from ringtree.formats.mscclpp import programs as mscclpp
from ringtree.formats.streams import THEIRS
from ringtree.ir.schedule import Block, Buffer, Schedule, Transfers
from ringtree.ir.text import parse_schedule
from ringtree.machines.catalogue import machine
from ringtree.transform import channels, pipeline, relabel, share
from ringtree.verify import prove, prove_programs
from ringtree.verify.progress import play
from ringtree.verify.races import Openness, check_races
from ringtree.verify.wiring import wire
from tests import oracle

KEYS = ("msccl", "mscclpp")
CASES = [(name, collective) for name, found in REGISTRY.items() for collective in found.serves if collective in THEIRS]


def written(schedule: Schedule, key: str, folder: Path, gpus_per_node: int | None = None) -> Imported:
    """The schedule's file, read back and proved."""
    path = folder / f"file{WRITERS[key].suffix}"
    path.write_text(text_of(schedule, key, gpus_per_node))
    found = load(path)
    prove(found.schedule)
    proof = prove_programs(found.programs, alike=True)
    assert (proof.early, proof.late) == (None, None)
    heads = [(s.collective, s.ranks, s.chunks) for s in (schedule, found.schedule)]
    assert heads[0] == heads[1]
    assert np.array_equal(found.schedule.chunks_sent(), schedule.chunks_sent())
    return found


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(("name", "collective"), CASES)
def test_an_algorithm_reads_back(name: str, collective: str, key: str, tmp_path: Path) -> None:
    for n in (1, 3, 4):
        schedule = build(name, collective, n)
        found = written(schedule, key, tmp_path)
        if n == 4:
            assert oracle.wrong(found.schedule) is None


OVER_EIGHT = [
    pytest.param(*case, marks=[] if case == ("double_tree", "all_reduce") else pytest.mark.slow) for case in CASES
]
"""Two trees, of which four ranks show too little; what others have of more ranks, three and four show."""


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(("name", "collective"), OVER_EIGHT)
def test_an_algorithm_over_eight_ranks_reads_back(name: str, collective: str, key: str, tmp_path: Path) -> None:
    written(build(name, collective, 8), key, tmp_path)


@pytest.mark.parametrize("key", KEYS)
def test_a_searched_schedule_reads_back(key: str, tmp_path: Path) -> None:
    """Rings along the orders that the search finds on a DGX-1, side by side."""
    plain = build("ring", "all_reduce", 8)
    rings = [relabel(plain, order) for order in search.rings(machine("dgx-1-v100"))]
    for schedule in (rings[0], share(*rings[:2])):
        written(schedule, key, tmp_path)


@pytest.mark.parametrize("key", KEYS)
def test_channels_and_pieces_read_back(key: str, tmp_path: Path) -> None:
    for schedule in (channels(build("double_tree", "all_reduce", 5), 3), pipeline(build("ring", "all_gather", 4), 6)):
        written(schedule, key, tmp_path)


@pytest.mark.parametrize(("name", "collective"), CASES)
def test_a_plan_over_nodes_reads_back(name: str, collective: str, tmp_path: Path) -> None:
    """Port channels between nodes, memory channels within: each of a rank's peers is reached by one of them."""
    for n, gpus_per_node in ((3, 1), (4, 2)):
        written(build(name, collective, n), "mscclpp", tmp_path, gpus_per_node)
        for rank, gpu in enumerate(json.loads((tmp_path / "file.json").read_text())["gpus"]):
            for channel in gpu["channels"]:
                far = {peer // gpus_per_node != rank // gpus_per_node for peer in channel["connected_to"]}
                assert far == {channel["channel_type"] == "port"}


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_a_ring_reads_back_as_it_was(n: int, tmp_path: Path) -> None:
    """The same rows in the same order: MSCCL XML, whose rcs and rrcs are a ring's, keeps all there is."""
    for collective in ("all_reduce", "reduce_scatter", "all_gather"):
        ring = build("ring", collective, n)
        assert written(ring, "msccl", tmp_path).schedule == ring
    steps = re.findall(r'type="(\w+)"', text_of(build("ring", "all_reduce", 8), "msccl"))
    assert [steps.count(kind) for kind in ("s", "rrcs", "rcs", "r", "nop")] == [8, 56, 48, 8, 0]


def test_a_plan_puts_in_place_what_it_may(tmp_path: Path) -> None:
    """An all_gather needs no scratch. A ring's sums come back when their targets have long sent what was there: only
    the first half goes through scratch."""
    cases = (("ring", "all_gather", 0), ("ring", "all_reduce", 7), ("two_shot", "all_reduce", 7))
    for name, collective, scratch in cases:
        plan = json.loads(text_of(build(name, collective, 8), "mscclpp"))
        assert {gpu["scratch_chunks"] for gpu in plan["gpus"]} == {scratch}, name
    ops = [op for block in plan["gpus"][0]["threadblocks"] for op in block["ops"]]
    assert max(len(op.get("src_buff", [])) for op in ops) == 8  # one addition of all peers' chunks


@pytest.mark.parametrize(
    ("moves", "staged"),
    [
        ("  round 0: 0 data[0] -> 1\n  round 1: 2 data[0] -> 0", True),
        ("  round 0: 2 data[0] -> 0; 0 data[0] -> 1", True),
        ("  round 0: 0 data[0] -> 1\n  round 1: 1 data[0] -> 2\n  round 2: 2 data[0] -> 0", False),
        ("  round 0: 0 data[0] -> 1; 2 data[0] -> 1", True),
        ("  round 0: 0 data[0] -> 1\n  round 1: 2 data[0] -> 1", True),
    ],
)
def test_a_put_goes_through_scratch_where_its_target_may_be_in_use(moves: str, staged: bool) -> None:
    """Rank 0 reads a chunk, or somebody writes it, and nothing shows to whoever stores there that this is done."""
    text = text_of(parse_schedule(f"schedule x all_reduce: 3 ranks, 1 chunks\nonce:\n{moves}"), "mscclpp")
    assert any(gpu["scratch_chunks"] for gpu in json.loads(text)["gpus"]) == staged
    wired = wire(mscclpp.from_bytes(Path("x"), text.encode()).programs)
    check_races(wired, play(wired).runs)


def test_the_signal_of_a_port_channel_shows_nothing_of_another_channels_put() -> None:
    """Rank 0 hears of 1, whose put to 2 may still read the chunk that 0 writes next."""
    rounds = "0 data[0] -> 1 scratch[0]", "1 data[0] -> 0; 1 scratch[0] -> 2 data[0]", "0 data[0] -> 1 scratch[0]"
    moves = "\n".join(f"  round {number}: {each}" for number, each in enumerate(rounds))
    text = text_of(parse_schedule(f"schedule x all_reduce: 3 ranks, 1 chunks, 1 scratch\nonce:\n{moves}"), "mscclpp", 1)
    wired = wire(mscclpp.from_bytes(Path("x"), text.encode()).programs)
    check_races(wired, play(wired).runs)


Drawn = tuple[int, int, int, int, int, bool, bool]
"""Which of the chunks that have a value is read; target, its buffer and chunk; count; whether it adds, as far as that
makes sense; whether a round begins."""
DRAWN = st.tuples(st.integers(0, 71), *(st.integers(0, 11) for _ in range(3)), st.integers(1, 2), *2 * [st.booleans()])
ONE_VIEW, TWO_VIEWS = (Buffer.DATA, Buffer.SCRATCH), (Buffer.OUTPUT, Buffer.SCRATCH)


def drawn_schedule(
    collective: str, n: int, in_place: bool, drawn: list[Drawn]
) -> tuple[Schedule, set[tuple[int, int]]]:
    """A schedule that reads only what was there or written before, of whatever use; and the (rank, position) of its
    outputs that it writes: the first transfer writes one."""
    empty = Schedule("drawn", collective, n, 2 * n, (), scratch=2)
    first = Buffer.DATA if in_place else Buffer.INPUT
    defined = {
        (rank, int(first), k - (0 if in_place else empty.precondition(rank).start))
        for rank in range(n)
        for k in empty.precondition(rank)
    }
    rows, written, found, at, fresh = [], set(defined), set[tuple[int, int]](), 0, set[tuple[int, int, int]]()
    for source, target, view, chunk, count, reduce, begins in drawn:
        if begins:
            defined, at, fresh = set(written), at + 1, set()
        window = empty.postcondition(target % n)
        buffer = (ONE_VIEW if in_place else TWO_VIEWS)[view % 2 if rows else 0]
        chunk %= empty.buffer_chunks(buffer) - count + 1
        if not rows:
            chunk = window.start if in_place else 0
        into = {(target % n, int(buffer), chunk + k) for k in range(count)}
        sources = [
            end
            for end in sorted(defined)
            if defined.issuperset(read := {(*end[:2], end[2] + k) for k in range(count)})
            and read.isdisjoint(into | fresh if end[0] == target % n else into)  # a local row reads the round's start
        ]
        rows.append((at, sources[source % len(sources)], min(into), count, reduce and defined.issuperset(into)))
        fresh |= into
        written |= into
        found |= {
            (rank, chunk - (window.start if in_place else 0))
            for rank, _, chunk in into
            if buffer == (Buffer.DATA if in_place else Buffer.OUTPUT) and (not in_place or chunk in window)
        }
    numbers = {at: k for k, at in enumerate(sorted({row[0] for row in rows}))}
    columns = list(zip(*((numbers[at], *a, *b, c, r) for at, a, b, c, r in rows), strict=True))
    transfers = Transfers.of(
        columns[1],
        columns[4],
        columns[3],
        to=columns[6],
        count=columns[7],
        reduce=columns[8],
        round=columns[0],
        source_buffer=columns[2],
        target_buffer=columns[5],
    )
    return replace(empty, blocks=(Block(transfers),)), found


@given(st.sampled_from(sorted(THEIRS)), st.integers(2, 4), st.booleans(), st.lists(DRAWN, min_size=4, max_size=40))
def test_drawn_schedules_mean_the_same(collective: str, n: int, in_place: bool, drawn: list[Drawn]) -> None:
    """The same numbers, and for any timing: no deadlock, no race, no access before a peer begins or after it ends."""
    schedule, outputs = drawn_schedule(collective, n, in_place, drawn)
    assert outputs
    texts = {}
    for name, *key in (*((key, key) for key in KEYS), ("mscclpp over nodes", "mscclpp", 1)):
        try:
            texts[name] = text_of(schedule, *key)
        except NotExpressible as refusal:  # many transfers of one pair of ranks, which are one thread block's
            assert re.search("needs more than 64 (operations|steps) of a thread block", str(refusal))
    want = oracle.replay(schedule)
    for key, text in texts.items():
        read = (msccl if key == "msccl" else mscclpp).from_bytes
        found = read(Path("drawn"), text.encode())
        got = oracle.replay(found.schedule)
        for rank, k in outputs:
            assert got[rank][k] == want[rank][k], (key, rank, k)
        wired = wire(found.programs)
        assert check_races(wired, play(wired).runs) == Openness(None, None)


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("schedule x scan: 2 ranks, 1 chunks\nonce: 0 data[0] +> 1", "msccl", "MSCCL XML has no scan; expected one of"),
        ("schedule x all_reduce: 2 ranks, 1 chunks, 1 scratch, 1 switches\nonce: 0 data[0] -> 2 scratch[0]",
         "mscclpp",         "x has 1 switches; expected ranks only"),
        ("schedule x all_reduce: 2 ranks, 1 chunks\n160 times, target +1, source +1: 0 data[0] -> 1", "msccl",
         "x needs more than 64 steps of a thread block"),
        ("schedule x all_reduce: 2 ranks, 1 chunks\n80 times, target +1, source +1: 0 data[0] -> 1", "mscclpp",
         "x needs more than 64 operations of a thread block, as many as MSCCL\\+\\+'s executor has"),
        ("schedule x all_reduce: 2 ranks, 1 chunks\n2000000 times: 0 data[0] -> 1", "msccl",
         "moves more than 1,048,576"),
    ],
)  # fmt: skip
def test_what_a_format_has_no_room_for(text: str, key: str, message: str) -> None:
    with pytest.raises(NotExpressible, match=message):
        text_of(parse_schedule(text), key)


def test_nodes_are_of_formats_that_name_them() -> None:
    ring = build("ring", "all_reduce", 4)
    with pytest.raises(ValueError, match="2 gpus a node: msccl does not name channels between nodes; expected mscclpp"):
        text_of(ring, "msccl", 2)
    with pytest.raises(ValueError, match="3 gpus a node: expected a divisor of the 4 ranks"):
        text_of(ring, "mscclpp", 3)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="no format 'svg': expected one of text, msccl, mscclpp"):
        text_of(build("ring", "all_reduce", 2), "svg")


@pytest.mark.parametrize("key", KEYS)
def test_a_read_of_what_is_not_written_yet_is_refused(key: str) -> None:
    """The schedule is right: the chunk is overwritten."""
    early = Transfers.of([0, 0, 1], [1, 1, 0], [1, 0, 1], to=[0, 0, 1], round=[0, 1, 1])
    schedule = Schedule("early", "all_gather", 2, 2, (Block(early),))
    prove(schedule)
    assert parse_schedule(text_of(schedule, "text")) == schedule
    with pytest.raises(NotExpressible, match=r"round 0: rank 0 data\[1\].*: reads a chunk that nothing has written"):
        text_of(schedule, key)
