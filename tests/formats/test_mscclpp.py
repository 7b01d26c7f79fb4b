"""MSCCL++ execution plans: files that are read are proved; others are refused with a reason."""

from __future__ import annotations

import copy
import json

import pytest

from ringtree.formats import FormatError, load
from ringtree.ir.program import Kind
from ringtree.ir.text import format_schedule, parse_schedule
from ringtree.verify import ProofError, prove, prove_programs
from tests import oracle


def plan(data_folder, name: str = "allreduce"):
    return json.loads((data_folder / "mscclpp_json" / f"{name}.json").read_text())


def read(content, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(content))
    return load(path)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("allreduce", ["round 0: r data[8r+k] +> r+1 for k=8..15", "round 1: r data[8r+k] -> r+1 for k=0..7"]),
        (
            "reduce",
            [
                "round 0: r data[2r+2:+2] -> r scratch[2r+2]; 0 data[2:4] +> 1",
                "round 1: 1 data[2:4] -> 1 scratch[2]; 1 scratch[1] -> 0; 1 scratch[0] +> 0 data[0]",
                "round 2: 0 data[0] -> 1; 1 scratch[2:4] -> 0 data[2]; 0 scratch[1] +> 0 data[1]",
                "round 3: 0 data[1] -> 1",
            ],
        ),
    ],
)
def test_a_real_plan(name, lines, data_folder):
    imported = load(data_folder / "mscclpp_json" / f"{name}.json")
    prove(imported.schedule)
    proof = prove_programs(imported.programs, alike=True)
    assert (proof.early, proof.late, proof.slots) == (None, None, 0)
    assert oracle.wrong(imported.schedule) is None
    text = format_schedule(imported.schedule)
    assert [line.strip() for line in text.splitlines()[2:]] == lines
    assert parse_schedule(text) == imported.schedule
    assert imported.facts["protocol"] == "Simple"


# file: chunks, rounds, transfers; whether it may touch a peer's memory before the peer begins, as packets may
REAL = {
    "allreduce": (16, 2, 32, False),
    "allreduce_packet": (4, 4, 12, True),
    "allreduce_pipeline": (132, 8, 1848, False),
    "reduce": (4, 4, 10, False),
    "reduce_pack": (2, 4, 9, True),
    "transfer_pack": (2, 3, 5, True),
}


def test_every_real_plan_is_in_the_table(data_folder):
    assert {p.stem for p in (data_folder / "mscclpp_json").glob("*.json")} == set(REAL)


@pytest.mark.parametrize("name", REAL)
def test_every_real_plan_is_proved(name, data_folder):
    imported = load(data_folder / "mscclpp_json" / f"{name}.json")
    prove(imported.schedule)
    proof = prove_programs(imported.programs, alike=True)
    s = imported.schedule
    assert (s.chunks, s.rounds, s.transfers, proof.early is not None) == REAL[name]
    assert proof.late is None
    assert oracle.wrong(s) is None
    assert parse_schedule(format_schedule(s)) == s


def test_the_programs_read_and_write_their_peers_memory(data_folder):
    program = load(data_folder / "mscclpp_json" / "allreduce.json").programs[0]
    assert len(program.threads) == 8
    assert [i.kind for i in program.threads[0]] == [Kind.SIGNAL, Kind.WAIT, Kind.REDUCE, Kind.SIGNAL, Kind.WAIT]
    assert str(program).splitlines()[4] == "  reduce output[0] output@1[0] <- input[0] input@1[0]"
    assert [thread[0].channel for thread in program.threads] == list(range(8))


@pytest.mark.parametrize("first", [0, 1])
def test_signals_that_are_left_out_are_missed(first, data_folder, tmp_path):
    """Without the handshake before or after, the peer's memory is touched too early or too late."""
    content = plan(data_folder)
    for gpu in content["gpus"]:
        for block in gpu["threadblocks"]:
            block["ops"] = block["ops"][3:] if first == 0 else block["ops"][:4]
    proof = prove_programs(read(content, tmp_path).programs, alike=True)
    assert (proof.early is None, proof.late is None) == (first == 1, first == 0)


def test_a_race_is_found(data_folder, tmp_path):
    """Both gpus reduce the same chunk."""
    content = plan(data_folder)
    content["gpus"][1]["threadblocks"][0]["ops"][3] = copy.deepcopy(content["gpus"][0]["threadblocks"][0]["ops"][3])
    with pytest.raises(ProofError, match="race"):
        prove_programs(read(content, tmp_path).programs, alike=True)


def changed(path: str, value: object):
    """A change of one entry of the plan, as a function of it."""

    def change(content):
        *way, last = (int(k) if k.isdecimal() else k for k in path.split("/"))
        for key in way:
            content = content[key]
        if value is None:
            del content[last]
        else:
            content[last] = value

    return change


OP = "gpus/0/threadblocks/0/ops"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed("collective", "broadcast"), "collective 'broadcast'; expected one of allreduce"),
        (changed("inplace", "yes"), 'inplace is "yes"; expected true or false'),
        (changed("gpus/0/id", 5), r"gpus have ids \[1, 5\]; expected 0..1"),
        (changed("gpus/0/input_chunks", 9), "gpu 0 has output_chunks 16; allreduce expects 9"),
        (changed("gpus/1/scratch_chunks", None), "lacks 'scratch_chunks'"),
        (changed("gpus/0/channels/0/connected_to/0", 0), "gpu 0 has a channel to gpu 0; expected another gpu"),
        (changed(f"{OP}/3/name", "leap"), r"gpu 0 tb 0 op 3 \(leap\): is not known; expected one of"),
        (changed(f"{OP}/3/reduce_op", "max"), r'op 3 \(rres\): reduce_op is "max"; expected sum'),
        (changed(f"{OP}/3/src_buff/0/index", 16), r"op 3 \(rres\): gpu 0's i\[16:17\]; it has 16 chunks"),
        (changed(f"{OP}/3/src_buff/0/size", 2), "its buffers differ in size"),
        (changed(f"{OP}/3/src_buff/1/buffer_id", 3), "names remote buffer 3, which it does not have"),
        (changed(f"{OP}/3/src_buff", []), "has 0 sources and 2 targets; expected 2 and 1"),
        (changed(f"{OP}/3/channel_type", "switch"), 'is on a channel of type "switch"; expected memory'),
        (changed(f"{OP}/3/tail", 1), "has 'tail'; known are"),
        (changed(f"{OP}/0/channel_ids/0", 7), "names channel 7, which it does not have"),
        (changed(f"{OP}/4", None), r"op 4 \(signal\): comes after a move; expected a nop between"),
        (changed(f"{OP}/2", None), r"op 2 \(rres\): comes after a wait; expected a nop between"),
        (changed(f"{OP}/0", None), "gpu 0 sends 1 times to gpu 1 on channel 0, which receives 2 times"),
        (changed(f"{OP}/3/src_buff/0/type", "s"), r"gpu 0's s\[0:1\]; it has 0 chunks"),
    ],
)
def test_a_broken_plan_is_refused_in_one_line(change, message, data_folder, tmp_path):
    content = plan(data_folder)
    change(content)
    with pytest.raises(FormatError, match=f"plan.json: .*{message}") as error:
        read(content, tmp_path)
    assert "\n" not in str(error.value)


def test_waits_in_a_circle(data_folder, tmp_path):
    content = plan(data_folder)
    for gpu in content["gpus"]:
        ops = gpu["threadblocks"][0]["ops"]
        ops[0], ops[1] = ops[1], ops[0]
    with pytest.raises(FormatError, match=r"gpu 0 tb 0 op 0 \(rlxwait\): deadlock"):
        read(content, tmp_path)
