"""What the operations of MSCCL++ plans mean: packets, proxies, switches, semaphores, groups, pipelines. Each plan is
proved, and its schedule is replayed on numbers; without what orders it, it is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ringtree.formats import FormatError, Imported, load
from ringtree.verify import ProgramProof, ProofError, prove, prove_programs
from tests import oracle
from tests.formats.plans import Line, plan, text


def read(tmp_path: Path, *args: Any, **options: Any) -> Imported:
    path = tmp_path / "plan.json"
    path.write_text(text(*args, **options))
    return load(path)


def accept(tmp_path: Path, *args: Any, **options: Any) -> tuple[list[str], ProgramProof]:
    """The lines of the plan's schedule, proved in both forms and by numbers."""
    found = read(tmp_path, *args, **options)
    prove(found.schedule)
    assert oracle.wrong(found.schedule) is None
    proof = prove_programs(found.programs, alike=True)
    return [line.strip() for line in str(found.schedule).splitlines()[1:]], proof


Blocks = Callable[[int, int], list[list[Line]]]
"""The thread blocks of gpu r of two, whose peer is q."""


def both(blocks: Blocks) -> list[list[list[Line]]]:
    return [blocks(0, 1), blocks(1, 0)]


BEGUN = ["rlxsignal {q}", "rlxwait {q}", "nop"]
DONE = ["nop", "signal {q}", "wait {q}"]


def between(q: int, *lines: Line) -> list[Line]:
    """The operations, after the peer has begun and before it ends."""
    return [*(w.format(q=q) for w in BEGUN), *lines, *(w.format(q=q) for w in DONE)]


GOOD: dict[str, tuple[list[list[list[Line]]], dict[str, Any]]] = {
    "packets": (
        both(
            lambda r, q: [
                [f"ppkt i{q} > {q}.s{q}", f"respkt i{r} s{r} > i{r} {q}.s{2 + r}"],
                [f"upkt s{2 + q} > i{q}"],
            ]
        ),
        {"chunks": 2, "scratch": 4},
    ),
    "packets that are copied on": (
        both(lambda r, q: [[f"cpkt o{r} > s{r}"], [f"rppkt s{r} > {q}.s{r}"], [f"upkt s{q} > o{q}"]]),
        {"chunks": 2, "scratch": 2, "coll": "allgather"},
    ),
    "packets by a proxy": (
        both(lambda r, q: [[f"cpkt o{r} > s{r}", f"rppkt s{r} > {q}.s{r} on {q}p"], [f"upkt s{q} > o{q}"]]),
        {"chunks": 2, "scratch": 2, "coll": "allgather"},
    ),
    "packets by a proxy that does not look": (
        both(lambda r, q: [[f"cpkt o{r} > s{r}", "nop", f"ppkt s{r} > {q}.s{r} on {q}p"], [f"upkt s{q} > o{q}"]]),
        {"chunks": 2, "scratch": 2, "coll": "allgather"},
    ),
    "sums of packets, as packets": (
        both(
            lambda r, q: [
                [f"ppkt i{q} > {q}.s{q}"],
                [f"recpkt i{r} s{r} > i{r} s{2 + r}"],
                [f"rppkt s{2 + r} > {q}.s{4 + r}"],
                [f"upkt s{4 + q} > i{q}"],
            ]
        ),
        {"chunks": 2, "scratch": 6},
    ),
    "sums of packets, both ways at once": (
        both(
            lambda r, q: [
                [f"ppkt i{q} > {q}.s{q}"],
                [f"recspkt i{r} s{r} > i{r} s{2 + r} {q}.s{4 + r}"],
                [f"upkt s{4 + q} > i{q}"],
            ]
        ),
        {"chunks": 2, "scratch": 6},
    ),
    "sums of packets that stay": (
        both(lambda r, q: [[f"ppkt i{q} > {q}.s{r}"], [f"repkt i{r} s{q} > i{r}"]]),
        {"chunks": 2, "scratch": 2, "coll": "reducescatter"},
    ),
    "packets by a switch": (
        both(lambda r, q: [[f"cpkt o{r} > s{r}", f"gstorepkt s{r} > all.s{r}"], [f"upkt s{q} > o{q}"]]),
        {"chunks": 2, "scratch": 2, "coll": "allgather"},
    ),
    "a proxy's puts": (
        both(
            lambda r, q: [
                [f"signal {q}p", f"wait {q}p", f"pws o{r} > {q}.o{r} on {q}p", f"wait {q}p", f"flush {q}p"],
            ]
        ),
        {"chunks": 2, "coll": "allgather"},
    ),
    "a proxy's put and signal apart": (
        both(
            lambda r, q: [
                [f"signal {q}p", f"wait {q}p", f"put o{r} > {q}.o{r} on {q}p", f"signal {q}p", f"wait {q}p"],
            ]
        ),
        {"chunks": 2, "coll": "allgather"},
    ),
    "several puts in one": (
        both(lambda r, q: [between(q, f"put o{2 * r} o{2 * r + 1} > {q}.o{2 * r} {q}.o{2 * r + 1}")]),
        {"chunks": 4, "coll": "allgather"},
    ),
    "a switch that adds and stores": (
        both(lambda r, q: [between(q, f"glres all.i{r} > all.i{r}")]),
        {"chunks": 2, "switch": "i"},
    ),
    "a switch that stores": (
        both(lambda r, q: [between(q, f"gstore o{r} > all.o{r}")]),
        {"chunks": 2, "coll": "allgather", "switch": "o"},
    ),
    "semaphores": (
        both(
            lambda r, q: [
                [f"copy i{q} > s0", "nop", "sem_release 0"],
                ["sem_acquire 0", *between(q, f"rre i{r} {q}.s0 > i{r}"), "nop", "sem_release 1"],
                ["sem_acquire 1", *between(q, f"get {q}.i{q} > i{q}")],
            ]
        ),
        {"chunks": 2, "scratch": 1, "semaphores": (0, 0)},
    ),
    "a barrier": (
        both(
            lambda r, q: [
                ["copy i0:2 > s0:2", "barrier 0 2", *between(q, f"rre i{r} {q}.s{r} > i{r}"), "barrier 1 2"],
                ["barrier 0 2", "barrier 1 2", *between(q, f"get {q}.i{q} > i{q}")],
            ]
        ),
        {"chunks": 2, "scratch": 2},
    ),
    "a group of thread blocks": (
        both(
            lambda r, q: (
                [
                    [f"ppkt i{q} > {q}.s{q} /2.{part}", f"respkt i{r} s{r} > i{r} {q}.s{2 + r} /2.{part}"]
                    for part in (0, 1)
                ]
                + [[f"upkt s{2 + q} > i{q}"]]
            )
        ),
        {"chunks": 2, "scratch": 4},
    ),
    "a pipeline": (
        both(lambda r, q: [between(q, [4096, 1, f"glres all.i{r} > all.i{r}"])]),
        {"chunks": 2, "switch": "i"},
    ),
    "a pipeline over two chunks": (
        both(lambda r, q: [between(q, [4096, 2, f"glres all.i{2 * r}:2 > all.i{2 * r}:2"])]),
        {"chunks": 4, "switch": "i"},
    ),
}

LINES = {
    "packets": ["once:", "round 0: r data[r+1] -> r+1 scratch[-r+1]", "round 1: r scratch[r] +> r data[r]"],
    "several puts in one": ["once: r data[2r] -> r+1; r data[2r+1] -> r+1"],
    "a switch that adds and stores": ["once:", "round 0: r data[r+1] +> r+1", "round 1: r data[r] -> r+1"],
    "a proxy's puts": ["once: r data[r] -> r+1"],
}


@pytest.mark.parametrize("name", GOOD)
def test_a_plan_is_proved(name: str, tmp_path: Path) -> None:
    blocks, options = GOOD[name]
    lines, _ = accept(tmp_path, blocks, **options)
    assert lines[: len(LINES.get(name, []))] == LINES.get(name, [])


@pytest.mark.parametrize(
    ("name", "left_out"),
    [
        ("packets", "upkt s3 > i1"),
        ("a switch that adds and stores", "signal 1"),
        ("a proxy's puts", "wait 1p"),
        ("semaphores", "sem_acquire 0"),
        ("semaphores", "sem_release 1"),
        ("a barrier", "barrier 0 2"),
        ("a group of thread blocks", "ppkt i1 > 1.s1 /2.0"),
    ],
)
def test_what_a_plan_lacks_is_missed(name: str, left_out: str, tmp_path: Path) -> None:
    """Without one of its operations, each plan is refused or not proved, or touches memory before or after its time."""
    blocks, options = GOOD[name]
    at = next((b, k) for b, lines in enumerate(blocks[0]) for k, line in enumerate(lines) if line == left_out)
    less = [[*blocks[0]], blocks[1]]
    less[0][at[0]] = [line for k, line in enumerate(blocks[0][at[0]]) if k != at[1]]
    with pytest.raises((FormatError, ProofError)):
        accept(tmp_path, less, **options)


REUSED: list[Line] = [
    "sem_acquire 2",
    "nop",
    "copy i0 > s0",
    "copy i1 > s1",
    "nop",
    "signal {q}",
    "wait {q}",
    "nop",
    "sem_release 0",
]


def pipelined(r: int, q: int, *, waits: bool) -> list[list[Line]]:
    """An all_reduce by a switch in three steps, each a thread block: the first may be two iterations ahead."""
    unit = 2**24
    first = [str(line).format(q=q) for line in REUSED][0 if waits else 2 :]
    second: list[Line] = ["sem_acquire 0", "nop", f"glres all.s{r} > all.s{r}", "nop", "sem_release 1"]
    third: list[Line] = [
        "sem_acquire 1",
        "nop",
        f"signal {q}",
        f"wait {q}",
        "nop",
        "copy s0 > i0",
        "copy s1 > i1",
        "nop",
    ]
    if waits:
        third.append("sem_release 2")
    return [[[unit, 1, *first]], [[unit, 1, *second]], [[unit, 1, *third]]]


def test_iterations_reuse_scratch_when_they_may(tmp_path: Path) -> None:
    """Two pieces of 16 MiB fit a chunk of scratch, so three iterations are played: the third waits for the first."""
    options: dict[str, Any] = {"chunks": 2, "scratch": 2, "semaphores": (0, 0, 2), "reuse_resources": True}
    found = read(tmp_path, both(lambda r, q: pipelined(r, q, waits=True)), **options)
    assert found.facts["pieces_of_a_chunk"] == 3
    assert (found.schedule.chunks, found.schedule.scratch) == (6, 4)
    accept(tmp_path, both(lambda r, q: pipelined(r, q, waits=True)), **options)
    with pytest.raises(ProofError, match=r"race: .* both touch rank .'s scratch"):
        prove_programs(read(tmp_path, both(lambda r, q: pipelined(r, q, waits=False)), **options).programs, alike=True)


BAD: list[tuple[list[list[list[Line]]], dict[str, Any], str]] = [
    (
        [[["upkt s0 > i0"]], []],
        {},
        r"gpu 0 tb 0 op 0 \(upkt\): deadlock: waits for packet s\[0\], which no step writes",
    ),
    (
        [[["ppkt i0 > 1.s0", "nop", "ppkt i1 > 1.s0"]], []],
        {},
        r"op 2 \(ppkt\): writes packet s\[0\] of gpu 1, as gpu 0 tb 0 op 0",
    ),
    (
        [[["cpkt i0 > s0", "copy s1 > i0"]], []],
        {},
        r"op 1 \(copy\): uses scratch of gpu 0 without flags, gpu 0 tb 0 op 0",
    ),
    ([[["cpkt i0 > i1"]], []], {}, r"op 0 \(cpkt\): has packets in i; expected them in s"),
    ([[["upkt 1.s0 > i0"]], []], {}, r"op 0 \(upkt\): names a peer's buffer where its own is expected"),
    ([[["pws i0 > 1.i0"]], []], {}, r"op 0 \(pws\): is on a channel of type \"memory\"; expected port"),
    ([[["put i0 > 1.i0 on 1p", "wait 1", "copy i0 > i1"]], []], {}, "comes after a wait; expected a nop between"),
    ([[["copy i0 > i1", "put i1 > 1.i1 on 1p"]], []], {}, "takes what a move above it may still write; expected a nop"),
    ([[["copy i0 > i1", "copy i1 > s0"]], []], {}, r"op 1 \(copy\): takes what a move above it may still write"),
    ([[["copy i0:2 > s0:2", "get 1.s0 > i1"]], []], {}, r"op 1 \(get\): writes what a move above it may still read"),
    ([[["copy i0 > i1", "sem_release 0"]], []], {}, r"op 1 \(sem_release\): comes after a move; expected a nop"),
    (
        [[["put i0 > 1.i0", "wait 1", "signal 1"]], []],
        {},
        "comes after a move; expected a nop between",
    ),
    ([[["wait 1", "signal 1", "put i0 > 1.i0"]], []], {}, r"op 2 \(put\): comes after a wait; expected a nop between"),
    ([[["wait 1", "signal 1 1"]], []], {}, r"op 1 \(signal\): comes after a wait; expected a nop between"),
    ([[["sem_acquire 0"]], []], {}, "deadlock: acquires semaphore 0 1 times, of 0 and 0 releases"),
    (
        [[["sem_acquire 0"], ["sem_acquire 0"], ["sem_release 0", "sem_release 0"]], []],
        {},
        "is acquired by two thread blocks",
    ),
    (
        [[["sem_acquire 0"], ["sem_release 0"], ["sem_release 0"]], []],
        {},
        "which releases of semaphore 0 it waits for is left",
    ),
    ([[["sem_acquire 5"]], []], {}, "names semaphore 5; expected one of the gpu's 1"),
    (
        [[["barrier 0 2"]], []],
        {},
        "deadlock: 1 thread blocks come to barrier 0, 1 to 1 times; expected 2, and each as often",
    ),
    ([[["sem_acquire 0", "sem_release 0"]], []], {}, "deadlock: waits for a step that waits for it"),
    (
        [[[[4096, 1, "copy i0:2 > s0:2"]]], []],
        {},
        r"op 0.0 \(copy\): moves 2 chunks in a pipeline over 1; expected as many",
    ),
    ([[[[4096, 1, "cpkt i0 > s0"]]], []], {}, r"op 0.0 \(cpkt\): packets in a pipeline, whose iterations would carry"),
    ([[[[0, 1, "copy i0 > s0"]]], []], {}, "a pipeline takes 0 bytes of 1 chunks a time; expected at least 1 of 1"),
    ([[[[4096, 1, "copy i0 > s0"], [4099, 1, "copy i0 > s0"]]], []], {}, "cut a chunk into more than 4096 pieces"),
    (
        [[[[2**14, 1, *["nop"] * 70]]], []],
        {"reuse_resources": True},
        "does more than 131072 operations, its iterations counted one by one",
    ),
    (
        [[[[3 * 2**20, 1, "copy i0 > s0"]]], []],
        {"reuse_resources": True},
        "takes 3145728 bytes a time; expected a divisor of",
    ),
    (
        [[[[2**24, 1, "copy i0 > s0", "nop"], "copy i1 > s1"]], []],
        {"reuse_resources": True},
        "uses scratch outside of the pipelines",
    ),
    ([[["copy i0 > s0 /2.2"]], []], {}, "a thread block is number 2 of a group of 2; expected 0..1"),
    ([[["copy i0 i1 > s0 s1"]], []], {}, r"op 0 \(copy\): has 2 sources and 2 targets; expected one of each"),
    ([[["jump i0 > s0"]], []], {}, r"op 0 \(jump\): is not known; expected one of barrier, copy, cpkt"),
]


@pytest.mark.parametrize(("blocks", "options", "message"), BAD)
def test_a_plan_that_cannot_be_is_refused(
    blocks: list[list[list[Line]]], options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(FormatError, match=f"plan.json: .*{message}") as error:
        read(tmp_path, blocks, 2, scratch=2, semaphores=(0,), **options)
    assert "\n" not in str(error.value)


def test_a_source_that_a_proxy_has_not_read_yet_is_not_written(tmp_path: Path) -> None:
    """Two chunks go through one of scratch: without a flush between, the second races with the proxy that reads the
    first."""

    def blocks(r: int, q: int, *flush: str, put: str = "pws") -> list[list[Line]]:
        puts = [[f"copy o{k} > s0", "nop", f"{put} s0 > {q}.o{k} on {q}p"] for k in (2 * r, 2 * r + 1)]
        return [[f"signal {q}p", f"wait {q}p", "nop", *puts[0], *flush, *puts[1], f"wait {q}p", f"wait {q}p"]]

    accept(tmp_path, both(lambda r, q: blocks(r, q, f"flush {q}p", "nop")), 4, "allgather", scratch=1)
    accept(tmp_path, both(lambda r, q: blocks(r, q, "nop", put="pwsf")), 4, "allgather", scratch=1)
    with pytest.raises(ProofError, match=r"race: .* both touch rank .'s scratch"):
        prove_programs(read(tmp_path, both(blocks), 4, "allgather", scratch=1).programs, alike=True)


def test_thread_blocks_do_not_share_a_port_channel(tmp_path: Path) -> None:
    found = plan([[["put i0 > 1.i0 on 1p"], ["put i1 > 1.i1 on 1p"]], []], 2)
    found["gpus"][0]["threadblocks"][1]["channels"][0]["channel_ids"] = [0]
    (tmp_path / "plan.json").write_text(json.dumps(found))
    with pytest.raises(FormatError, match=r"tb 1 op 0 \(put\): uses port channel 0, as thread block 0 does"):
        load(tmp_path / "plan.json")


def test_what_is_no_collective_is_refused_with_what_it_does(tmp_path: Path) -> None:
    blocks = both(lambda r, q: [between(q, f"put i0 > {q}.o0")])
    message = r"'sendrecv'; expected one of .*\. Its 2 gpus move round 0: rank 0 input\[0\] -> rank 1 output\[0\]; "
    with pytest.raises(FormatError, match=message):
        read(tmp_path, blocks, 1, "sendrecv", inplace=False)
