"""MSCCL XML: real files, raised and proved; and what is refused, with its error."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from ringtree.algorithms import REGISTRY
from ringtree.formats import FormatError, load
from ringtree.ir.lower import lower
from ringtree.ir.program import Kind, Program
from ringtree.ir.text import format_schedule, parse_schedule
from ringtree.verify import ProofError, prove, prove_programs
from tests import oracle
from tests.formats.writing import Block, algo, ring, write

# file: rounds, transfers, slots that suffice
REAL = {
    "a2a2ll": (1, 128, 1),
    "a2a4ll": (1, 256, 1),
    "ag-16m": (1, 224, 1),
    "ag-1k-512k": (1, 112, 1),
    "ag-1m": (1, 224, 1),
    "ag-32m-1g": (7, 1792, 2),
    "ag_allpair_simple_x_1": (1, 56, 1),
    "ag_hier_4_LL": (2, 64, 1),
    "ag_hier_4_Simple": (2, 64, 1),
    "ag_ring_ll_4_1": (7, 56, 1),
    "ag_ring_simple_1_1": (7, 56, 1),
    "ag_ring_simple_8_2": (7, 112, 1),
    "ap-1pass": (2, 2016, 1),
    "ap2ll": (3, 1120, 1),
    "ap4ll": (3, 2240, 1),
    "ar_hier_12_Simple": (4, 192, 1),
    "ar_tree_12_LL": (6, 144, 1),
    "lyd_allreduce_4_nomial_tree_h_Simple_gpu64_ins1": (10, 504, 1),
    "lyd_allreduce_a100_ring_ch4": (6, 24, 1),
    "lyd_allreduce_binary_tree_Simple_gpu4_ins1": (4, 12, 1),
    "lyd_allreduce_binary_tree_h_p_8_ch_intra_pipe_inter_2nicPtree": (14, 536, 2),
    "lyd_allreduce_rec_doub_halv_Simple_gpu64_ins1": (12, 768, 1),
    "ns3_allreduce_hierarchical_16_1": (30, 480, 2),
    "ns3_allreduce_ring_8_1": (14, 112, 2),
    "r48ll": (14, 896, 1),
    "r48ll128": (14, 896, 1),
}


def test_every_real_file_is_in_the_table(data_folder):
    assert {p.stem for p in (data_folder / "msccl_xml").glob("*.xml")} == {*REAL, "INVALID_ns3_all2all"}


ALIKE = ("a2a4ll", "ag-1k-512k", "ap4ll", "r48ll128")
"""Files that are as another one but for protocol or the number of instances: slow tests."""


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in ALIKE else []) for n in REAL])
def test_a_real_file(name, data_folder):
    """Raised, proved as a schedule, as the file's programs and as ours, printed and read back."""
    imported = load(data_folder / "msccl_xml" / f"{name}.xml")
    prove(imported.schedule)
    proof = prove_programs(imported.programs, alike=True)
    rounds, transfers, slots = REAL[name]
    assert (imported.schedule.rounds, imported.schedule.transfers, proof.slots) == (rounds, transfers, slots)
    prove_programs(lower(imported.schedule))
    assert parse_schedule(format_schedule(imported.schedule)) == imported.schedule
    assert imported.facts["format"] == "MSCCL XML"


def test_the_symmetry_of_a_real_file(data_folder):
    """One line for 224 transfers; and a file that calls itself hierarchical is a ring."""
    text = str(load(data_folder / "msccl_xml" / "ag-1m.xml").schedule)
    assert text.splitlines()[1:] == ["once: r data[4r+k] -> r+j for j=1..7, k=0..3"]
    hierarchical = load(data_folder / "msccl_xml" / "ns3_allreduce_hierarchical_16_1.xml").schedule
    assert str(hierarchical).splitlines()[2:] == [
        "  round k: r data[r-k-1] +> r+1 for k=0..14",
        "  round k: r data[r-k-1] -> r+1 for k=15..29",
    ]


def test_the_invalid_file_is_refused_for_its_reason(data_folder):
    message = r"INVALID_ns3_all2all.xml: gpu 0 tb 1 step 0 \(s\), line 8: reads o\[2\], which nothing has written"
    with pytest.raises(FormatError, match=message):
        load(data_folder / "msccl_xml" / "INVALID_ns3_all2all.xml")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        *product(["ar_tree_12_LL"], ["source", "target", "type", "dependence"]),
        *product(["ar_hier_12_Simple"], ["type", "dependence"]),
        *product(["ag_hier_4_LL"], ["source", "target"]),  # it has no sums, and no step waits for another
    ],
)
def test_a_changed_real_file_is_caught(name, change, data_folder, tmp_path):
    """Of four steps each changed alone, none passes both proofs unless its result is still right (numerically)."""
    text = (data_folder / "msccl_xml" / f"{name}.xml").read_text()
    pattern, replacement = {
        "source": (r'type="(s|rrs|rrc)" srcbuf="(.)" srcoff="\d+"', r'type="\1" srcbuf="\2" srcoff="1"'),
        "target": (r'dstoff="\d+"', 'dstoff="0"'),
        "type": (r'type="(rrc|re|rcs)"', lambda m: {"rrc": 'type="r"', "re": 'type="cpy"', "rcs": 'type="rrs"'}[m[1]]),
        "dependence": (r'depid="\d+" deps="\d+"', 'depid="-1" deps="-1"'),
    }[change]
    found = [m for m in re.finditer(pattern, text) if re.sub(pattern, replacement, m[0]) != m[0]]
    caught = 0
    for m in found[:: max(len(found) // 4, 1)]:
        path = write(tmp_path, text[: m.start()] + re.sub(pattern, replacement, m[0]) + text[m.end() :])
        try:
            imported = load(path)
            prove_programs(imported.programs, alike=True)
        except (FormatError, ProofError):
            caught += 1
        else:
            assert oracle.wrong(imported.schedule) is None
    assert found and caught


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_a_fused_ring_is_our_ring(n, tmp_path):
    """Sums that are sent on unstored are formed where nobody needs what was there: no scratch, the same transfers."""
    assert load(write(tmp_path, ring(n))).schedule == REGISTRY["ring"].build("all_reduce", n)


def accept(tmp_path: Path, text: str) -> tuple[str, tuple[Program, ...]]:
    """The text of a program, proved in both forms."""
    imported = load(write(tmp_path, text))
    prove(imported.schedule)
    prove_programs(imported.programs, alike=True)
    assert oracle.wrong(imported.schedule) is None
    return str(imported.schedule).split("\n", 1)[1], imported.programs


def test_an_exchange_takes_one_round(tmp_path):
    pair: list[list[Block]] = [[(1 - r, 1 - r, ["s i0 i0", "rrc i0 i0"])] for r in range(2)]
    assert accept(tmp_path, algo(pair, 1))[0] == "once: r data[0] +> r+1"


def test_a_sum_sent_on_where_its_part_is_still_needed_takes_scratch(tmp_path):
    """Gpu 1 sends on the sum of gpu 0's and its own without storing it, and its own alone afterwards."""
    gpus: list[list[Block]] = [
        [(1, -1, ["s i0 i0"]), (-1, 2, ["r i0 i0 after 0.0"])],
        [(2, 0, ["rrs i0 i0", "s i0 i0"]), (-1, 2, ["r i0 i0 after 0.1"])],
        [(-1, 1, ["rrc i0 i0", "r s0 s0"]), (0, -1, ["s i0 i0 after 0.0"]), (1, -1, ["s i0 i0 after 0.0"])],
    ]
    text, _ = accept(tmp_path, algo(gpus, 1, scratch=1))
    assert text.splitlines()[1:] == [
        "  round 0: 1 data[0] -> 1 scratch[1]; 1 data[0] -> 2 scratch[0]; 0 data[0] +> 1 scratch[1]",
        "  round 1: 1 scratch[1] +> 2 data[0]",
        "  round 2: 2 data[0] -> 0; 2 data[0] -> 1",
    ]


def test_the_programs_kinds(tmp_path):
    """The instructions of each step."""
    kinds = [i.kind for i in load(write(tmp_path, ring(3))).programs[0].threads[0]]
    c, r, s, w, f = Kind.COPY, Kind.REDUCE, Kind.SIGNAL, Kind.WAIT, Kind.RELEASE
    assert kinds == [c, s, w, r, s, f, w, r, s, f, w, c, s, f, w, c, f]


def test_in_place_with_and_without_an_input_buffer(tmp_path):
    """An all_gather's own block is i[0] or o[its block]: the same memory."""
    for own in ("i0 o{r}", "o{r} o{r}"):
        gpus: list[list[Block]] = [[(1 - r, 1 - r, ["s " + own.format(r=r), f"r o{1 - r} o{1 - r}"])] for r in range(2)]
        text, programs = accept(tmp_path, algo(gpus, 2, "allgather"))
        assert text == "once: r data[r] -> r+1"
        assert all(p.aliasable for p in programs)


def test_out_of_place(tmp_path):
    gpus: list[list[Block]] = [[(1 - r, 1 - r, [f"cpy i0 o{r}", "s i0 o0", f"r i0 o{1 - r}"])] for r in range(2)]
    text, programs = accept(tmp_path, algo(gpus, 2, "allgather", inplace=0))
    assert text == "once: r input[0] -> r output[r]; r input[0] -> r+1 output[r]"
    assert not any(p.aliasable for p in programs)


def test_reduce_scatter_in_place(tmp_path):
    """Sums outside of a gpu's own block are formed in the input; out of place they take scratch instead."""
    gpus: list[list[Block]] = [
        [((r + 1) % 3, (r - 1) % 3, [f"s i{(r - 1) % 3} i0", f"rrs i{(r - 2) % 3} i0", f"rrc i{r} i{r}"])]
        for r in range(3)
    ]
    text, programs = accept(tmp_path, algo(gpus, 3, "reducescatter"))
    assert text == "once:\n  round 0: r data[r-1] +> r+1\n  round 1: r data[r+1] +> r+1"
    assert all(p.scratch == 0 for p in programs)


def test_a_step_may_touch_chunks_inside_and_outside_of_the_output(tmp_path):
    """In place they are side by side. Out of place all sums are formed in scratch, and the output is copied at last."""
    gpus: list[list[Block]] = [
        [(1 - r, 1 - r, ["s i1 i1 x2", "rrc i1 i1 x2", f"s i{3 - 3 * r} i0", f"rrc i{3 * r} i{3 * r}"])]
        for r in range(2)
    ]
    text, programs = accept(tmp_path, algo(gpus, 4, "reducescatter"))
    assert text == "once: r data[r-1] +> r+1; r data[1:3] +> r+1"
    for r, program in enumerate(programs):
        assert (program.aliasable, program.scratch) == (True, 4)
        assert str(program).splitlines()[-1] == f"  copy output[0:2] <- scratch[{2 * r}:{2 * r + 2}] after 0.9"


def test_chunks_of_one_step_are_one_transfer(tmp_path):
    gpus: list[list[Block]] = [[(1 - r, 1 - r, ["s i0 i0 x4", "rrc i0 i0 x4"])] for r in range(2)]
    assert accept(tmp_path, algo(gpus, 4))[0] == "once: r data[0:4] +> r+1"


def test_a_step_may_read_received_beside_given_chunks(tmp_path):
    """Recursive doubling sends a block that was received together with its own."""
    gpus: list[list[Block]] = []
    for r in range(4):
        near, far, low = r ^ 1, r ^ 2, r & ~1
        gpus.append(
            [
                (near, near, [f"s o{r} o0", f"r o{near} o{near}"]),
                (far, far, [f"s o{low} o0 x2 after 0.1", f"r o{low ^ 2} o{low ^ 2} x2"]),
            ]
        )
    assert accept(tmp_path, algo(gpus, 4, "allgather"))[0] == (
        "once:\n  round 0: r data[r] -> -r+1\n  round 1: r data[down(r,2):+2] -> r^2"
    )


@pytest.mark.parametrize("inplace", [0, 1])
def test_what_rccl_and_te_ccl_add(inplace, tmp_path):
    """Attributes are kept as facts. A <copy> is done before the thread blocks begin, in place it is there already."""
    gpus: list[list[Block]] = [[(1 - r, 1 - r, [f"s o{r} o0", f"r o{1 - r} o{1 - r}"])] for r in range(2)]
    text = algo(gpus, 2, "allgather", inplace=inplace)
    for r in range(2):
        at = text.index("<tb", text.index(f'<gpu id="{r}"'))
        text = f'{text[:at]}<copy i_off="0" o_off="{r}"/>{text[at:]}'
    text = text.replace('nchannels="1"', 'nchannels="1" maxcount="1" nthreadblocks="1" redop="nop"')
    schedule, programs = accept(tmp_path, text)
    copied = "round 0: r input[0] -> r output[r]\n  round 1: r output[r] -> r+1"
    assert schedule == ("once: r data[r] -> r+1" if inplace else f"once:\n  {copied}")
    assert [len(p.threads) for p in programs] == [2, 2]
    facts = load(tmp_path / "test.xml").facts
    assert [facts[k] for k in ("maxcount", "nthreadblocks", "redop", "copies")] == [1, 1, "nop", 2]


GOOD = ring(2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace('type="s"', 'type="send"', 1), "line 4: step type 'send'; expected one of cpy, nop, r"),
        (GOOD.replace('cnt="1"', 'cnt="1" colour="red"', 1), "line 4: <step> has an attribute 'colour'; known are"),
        (GOOD.replace(' srcoff="1"', "", 1), "line 4: <step> lacks the attribute srcoff"),
        (GOOD.replace('cnt="1"', 'cnt="one"', 1), "line 4: <step> cnt='one'; expected a number"),
        (GOOD.replace('cnt="1"', 'cnt="--5"', 1), "line 4: <step> cnt='--5'; expected a number"),
        (GOOD.replace('cnt="1"', 'cnt="0"', 1), r"gpu 0 tb 0 step 0 \(s\), line 4: cnt=0; expected at least 1"),
        (GOOD.replace('srcbuf="i"', 'srcbuf="x"', 1), "line 4: srcbuf 'x'; expected i, o or s"),
        (
            GOOD.replace('srcoff="1"', 'srcoff="9"', 1),
            r"tb 0 step 0 \(s\), line 4: i\[9:10\]; its buffer i has 2 chunks",
        ),
        (GOOD.replace(' s="0"', ' s="5"', 1), "line 4: step 5 of tb 0; expected step 0"),
        (GOOD.replace('send="1"', 'send="0"', 1), r"gpu 0 tb 0, line 3: send=0; expected another gpu of 0..1"),
        (
            GOOD.replace('send="1"', 'send="-1"', 1),
            r"step 0 \(s\), line 4: its thread block has send=-1; expected a gpu",
        ),
        (GOOD.replace('nchannels="1"', 'nchannels="0"'), "nchannels is 0, but a thread block has channel 0; expected"),
        (GOOD.replace('proto="Simple"', 'proto="Sample"'), "proto is 'Sample'; expected one of Simple, LL, LL128"),
        (GOOD.replace('ngpus="2"', 'ngpus="3"'), r"ngpus is 3, but its gpus are 0, 1; expected 0..2"),
        (GOOD.replace('coll="allreduce"', 'coll="broadcast"'), "coll 'broadcast'; expected one of allreduce"),
        (GOOD.replace('i_chunks="2"', 'i_chunks="7"', 1), "gpu 0: i_chunks is 7; allreduce of 2 chunks expects 2"),
        (GOOD.replace('inplace="1"', 'inplace="2"'), "inplace is 2; expected 0 or 1"),
        (GOOD.replace('inplace="1"', 'inplace="0"'), r"writes its input, and the file has no inplace=1"),
        (
            GOOD.replace('depid="-1" deps="-1"', 'depid="4" deps="0"', 1),
            "depends on tb 4 step 0, which its gpu does not",
        ),
        (GOOD.replace('chan="0"', 'chan="-3"', 1), "gpu 0 tb 0, line 3: chan=-3; expected 0 or more, or -1 for"),
        (GOOD.replace('chan="0"', 'chan="-1"', 1), "gpu 0 tb 0, line 3: chan=-1; expected 0 or more, or -1 for"),
        (GOOD.replace('<tb id="0"', '<tb id="-4"', 1), "gpu 0 tb -4, line 3: its id is negative; expected 0 or more"),
        (GOOD.replace('hasdep="0"', 'hasdep="5"', 1), "line 4: hasdep=5; expected 0 or 1"),
        (GOOD.replace('hasdep="0"', 'hasdep="-1"', 1), "line 4: hasdep=-1; expected 0 or 1"),
        (
            GOOD.replace('inplace="1"', 'inplace="1" minBytes="100" maxBytes="10"'),
            "no call has minBytes 100 to maxBytes 10; expected minBytes up to maxBytes, or maxBytes 0 for no limit",
        ),
        (GOOD.replace("<tb", "<block", 1), "line 3: <block> inside <gpu>; expected <tb>"),
        (
            GOOD.replace("<tb", '<copy i_off="0" o_off="5"/><tb', 1),
            r"gpu 0 copy 0, line 3: o\[5:6\]; its buffer o has 2 chunks",
        ),
        (GOOD.replace("<step", "<op", 1), "line 4: <op>: this newer syntax has no target for an rcs"),
        (GOOD.replace("</tb>", "hello</tb>", 1), "line 7: text 'hello'; expected elements only"),
        (GOOD[:-10], "line .*: not well-formed XML"),
        ("<system/>", "line 1: <system> here; expected <algo>"),
        ('<!DOCTYPE algo [<!ENTITY a "b">]>' + GOOD, "line 1: has a document type declaration; expected none"),
    ],
)
def test_a_broken_file_is_refused_in_one_line(text, message, tmp_path):
    with pytest.raises(FormatError, match=f"test.xml: .*{message}") as error:
        load(write(tmp_path, text))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("limits", ["", 'minBytes="100" maxBytes="0"', 'minBytes="100" maxBytes="100"'])
def test_a_block_without_peers_may_have_no_channel(limits, tmp_path):
    """As the first runtime reads it; and a file without an upper limit of bytes, or for one size."""
    adds: Block = (-1, -1, ["re s0 i0 after 0.1"])
    gpus: list[list[Block]] = [[(1 - r, 1 - r, ["s i0 i0", "r i0 s0"]), adds] for r in (0, 1)]
    text = algo(gpus, 1, scratch=1).replace('inplace="1"', f'inplace="1" {limits}')
    parts = text.split('send="-1" recv="-1" chan="0"')
    assert len(parts) == 3
    accept(tmp_path, 'send="-1" recv="-1" chan="-1"'.join(parts))


@pytest.mark.parametrize(
    ("gpus", "message"),
    [
        ([[(1, -1, ["s i0 i0"])], []], "gpu 0 sends 1 times to gpu 1 on channel 0, which receives 0 times"),
        (
            [[(1, -1, ["s s0 i0"])], [(-1, 0, ["r i0 i0"])]],
            r"gpu 0 tb 0 step 0 \(s\), line 4: reads s\[0\], which nothing",
        ),
        (
            [[(1 - r, 1 - r, ["r i0 i0", "s i0 i0"])] for r in range(2)],
            r"step 0 \(r\), line 4: deadlock: waits for a message",
        ),
        (
            [[(-1, -1, ["cpy i0 s0 after 1.0"]), (-1, -1, ["cpy i0 s0 after 0.0"])], []],
            r"gpu 0 tb 0 step 0 \(cpy\), line 4: deadlock: waits for a step that waits for it",
        ),
        (
            [
                [
                    (-1, -1, ["nop after 1.0", "cpy i0 s0 after 1.1"]),
                    (-1, -1, ["nop after 0.0", "cpy i0 s0 after 0.1"]),
                ],
                [],
            ],
            "deadlock: waits for a step that waits for it",
        ),
        ([[(1, -1, ["s i0 i0"]), (1, -1, ["s i0 i0"])], [(-1, 0, ["r i0 i0"])]], "send=1 on channel 0, as tb 0 has"),
        ([[(1, -1, ["s i0 i0 x2"])], [(-1, 0, ["r i0 i0"])]], "takes 1 chunks from a message of 2; expected as many"),
        ([[(-1, -1, ["cpy i0 i1 x2"])], []], r"writes over part of i\[0:2\], which it reads"),
    ],
)
def test_a_program_that_cannot_be_is_refused(gpus, message, tmp_path):
    with pytest.raises(FormatError, match=message):
        load(write(tmp_path, algo(gpus, 3, scratch=1)))


def test_hostile_nesting_and_nops_end_soon(tmp_path):
    with pytest.raises(FormatError, match="line 1: <algo> inside <algo>"):
        load(write(tmp_path, GOOD.replace("\n", "").split("<gpu")[0] * 100_000))
    many = 3000
    blocks: list[Block] = [(-1, -1, ["nop"] * many), (-1, -1, [f"nop after 0.{k}" for k in range(many)])]
    with pytest.raises(FormatError, match="deadlock: waits for tb 0 step 0, whose end nobody announces"):
        load(write(tmp_path, algo([blocks], 1)))


@pytest.mark.parametrize(("count", "expected"), [(2**18, "moves 5242880"), (2**20 - 1, "has 10485750")])
def test_too_many_chunks_are_refused(count, expected, tmp_path):
    blocks: list[list[Block]] = [[(-1, -1, [f"cpy i0 s0 x{count}"] * 2)] for _ in range(5)]
    with pytest.raises(FormatError, match=f"test.xml: {expected} chunks over all gpus; expected at most 4194304"):
        load(write(tmp_path, algo(blocks, count, scratch=count)))


def test_no_scratch_beyond_the_files_own(data_folder):
    schedule = load(data_folder / "msccl_xml" / "ap2ll.xml").schedule
    assert schedule.scratch == 112
    hierarchical = load(data_folder / "msccl_xml" / "ar_hier_12_Simple.xml").schedule
    assert hierarchical.scratch == 24


def test_the_facts_of_a_file_are_in_its_order(tmp_path: Path) -> None:
    head = 'ngpus="2" outofplace="0" nchannels="1" inplace="1" maxBytes="9" minBytes="3" nchunksperloop="2"'
    text = re.sub(r"<algo [^>]*>", f'<algo coll="allreduce" name="x" {head} redop="sum" proto="LL">', ring(2))
    names = [name for name in load(write(tmp_path, text)).facts if name not in ("format", "thread_blocks", "steps")]
    assert names == ["coll", "name", "redop", "proto", *re.findall(r"(\w+)=", head)]
