"""`ringtree train --plan --topology --compare`: the table, the record, mistakes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ringtree.training import ParallelLayout, Shape, TrainingPlan, TrainingSettings
from ringtree.training.core.flops import flops
from ringtree.training.strategies.layers.micro_batches import divisors
from tests.cli.conftest import Ringtree

MODEL = "--layers 8 --heads 16 --width 1024 --sequence 512 --batch 64 --plan --topology dgx-h100"


def test_the_table_has_the_least_communication_first(ringtree: Ringtree, golden: Callable[[str, str], None]) -> None:
    code, out, err = ringtree("train", *MODEL.split(), "--compare", "16")
    assert code == 0 and not err
    golden("views/train_layouts.txt", out.rstrip("\n"))


def test_the_record_has_what_each_plan_has(ringtree: Ringtree, tmp_path: Path) -> None:
    file, other = tmp_path / "layouts.json", tmp_path / "plan.json"
    words = f"{MODEL} --dtype bfloat16 --compare 32 --tp 4 --json {file}"
    assert ringtree("train", *words.split()).code == 0
    found = json.loads(file.read_text())
    times = [one["predicted"]["time_us"] for one in found["layouts"] if not one["predicted"]["not_priced_at"]]
    assert times == sorted(times) and {one["layout"]["tp"] for one in found["layouts"]} == {4}
    assert {one["layout"]["pp"] for one in found["layouts"]} == {1, 2, 4, 8}
    for one in found["layouts"]:
        layout = one["layout"]
        plan = f"{MODEL} --dtype bfloat16 --tp 4 --pp {layout['pp']} --dp {layout['dp']} --json {other}"
        assert ringtree("train", *plan.split()).code == 0
        assert json.loads(other.read_text())["predicted"] == one["predicted"]
        assert one["bubble"] == pytest.approx(_bubble(layout))


def test_layouts_that_do_not_fit_come_last(ringtree: Ringtree, tmp_path: Path) -> None:
    """100,837,632 parameters of 16 bytes each, and what tensor parallel ranks have in full."""
    file = tmp_path / "layouts.json"
    words = f"{MODEL} --dtype bfloat16 --compare 16 --memory 512M --json {file}"
    lines = ringtree("train", *words.split()).out.splitlines()
    found = json.loads(file.read_text())
    held = [one["held_nbytes"] for one in found["layouts"]]
    assert found["memory_nbytes"] == 512 << 20 and max(held) == 16 * max(one["parameters"] for one in found["layouts"])
    too_large = [nbytes > 512 << 20 for nbytes in held]
    assert too_large == sorted(too_large) and 0 < sum(too_large) < len(held)
    assert lines[-1] == f"{sum(too_large)} layouts of more than a GPU's memory, at the end of the table"
    assert "of 512 MiB" in lines[6] and lines[6 + len(held)].split()[-3].endswith("%")


def test_the_quickest_steps_come_first_where_computing_is_known(ringtree: Ringtree, tmp_path: Path) -> None:
    """And a layout that waits in a bubble is behind one that communicates more."""
    file = tmp_path / "layouts.json"
    code, out, _ = ringtree("train", *f"{MODEL} --compare 16 --tflops 300 --json {file}".split())
    found = json.loads(file.read_text())
    steps, calls = ([of(one) for one in found["layouts"]] for of in (_step_us, lambda one: one["predicted"]["time_us"]))
    assert code == 0 and found["flops_a_s"] == 3e14 and steps == sorted(steps) and calls != sorted(calls)
    for one in found["layouts"]:
        assert one["computing_us"] * (1 + one["bubble"]) < one["step_us"] <= one["serial_us"]
    lines = out.splitlines()
    assert lines[0].endswith("the quickest step first") and "at 300 TFLOP/s" in out
    assert lines[6].split()[:7] == ["layout", "micro-batches", "step", "tokens/s", "TFLOP/s", "serial", "computing"]
    first = found["layouts"][0]
    assert first["tokens_a_s"] == pytest.approx(64 * 512 / first["step_us"] * 1e6)
    tflops = first["model_flops_a_s"] / 1e12
    assert 0 < tflops < 300 and lines[7].split(f"  {first['tokens_a_s']:,.0f} ")[1].split()[0] == f"{tflops:.3g}"
    assert lines[2] == "a step reads 64 sequences of 512 bytes, 32,768 tokens"


def test_micro_batches_are_as_many_as_are_quickest_and_fit(ringtree: Ringtree, tmp_path: Path) -> None:
    """Each layout beside itself in the numbers that can be: all that divide a rank's rows, not powers of two alone."""
    file, memory_nbytes = tmp_path / "layouts.json", 1 << 30
    words = f"{MODEL} --dtype bfloat16 --compare 16 --tflops 300 --memory 1G --tp 2 --batch 48 --json {file}"
    assert ringtree("train", *words.split()).code == 0
    chosen, tried = json.loads(file.read_text())["layouts"], list[dict[str, Any]]()
    for micro_batches in divisors(48):
        if ringtree("train", *words.split(), "--micro-batches", str(micro_batches)).code == 0:
            tried += json.loads(file.read_text())["layouts"]
    numbers = set()
    for one in chosen:
        axes = [one["layout"][axis] for axis in ("pp", "dp", "tp")]
        alike = [other for other in tried if [other["layout"][axis] for axis in ("pp", "dp", "tp")] == axes]
        fitting = [of for of in alike if of["held_nbytes"] + of["saved_nbytes"] <= memory_nbytes]
        least = min(alike, key=lambda of: float(of["saved_nbytes"]))
        assert one["step_us"] == min(map(_step_us, fitting or [least]))
        numbers.add(one["layout"]["micro_batches"])
    assert len(numbers) > 2 and any(number % 3 == 0 for number in numbers)
    assert any(one["held_nbytes"] + one["saved_nbytes"] > memory_nbytes / 2 for one in chosen)


def test_activations_that_do_not_fit_are_computed_again(ringtree: Ringtree, tmp_path: Path) -> None:
    """Those of eight data parallel ranks: of 830 MiB they have 863, and 798 computed again."""
    file, found = tmp_path / "layouts.json", dict[str, list[dict[str, Any]]]()
    words = f"{MODEL} --dtype bfloat16 --compare 16 --tflops 300 --tp 2 --batch 48 --micro-batches 6 --json {file}"
    for more in ("--memory 830M", "--memory 830M --no-recompute", "--memory 80G", "--memory 80G --recompute"):
        head = ringtree("train", *words.split(), *more.split()).out.splitlines()[6]
        found[more] = _layouts(file)
        assert ("recompute" in head.split()) == any(one["layout"]["recompute"] for one in found[more])
    chosen, without, large, asked = found.values()
    assert [one["layout"]["dp"] for one in chosen if one["layout"]["recompute"]] == [8]
    assert all(one["held_nbytes"] + one["saved_nbytes"] <= 830 << 20 for one in chosen)
    assert sum(one["held_nbytes"] + one["saved_nbytes"] > 830 << 20 for one in without) == 1
    assert not any(one["layout"]["recompute"] for one in (*without, *large))
    assert all(one["layout"]["recompute"] for one in asked)


UNKNOWN = (
    '<pci busid="0000:0{}:00.0" class="0x030200" vendor="0x10de" device="0x9999" link_speed="32 GT/s" link_width="16"/>'
)
"""A GPU that is in no table."""
LINKED = (
    '<pci busid="0000:0{0}:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32 GT/s" link_width="16">'
    '<gpu dev="{0}" sm="90" rank="{0}"><nvlink target="0000:0{1}:00.0" count="1000" tclass="0x030200"/></gpu></pci>'
)
"""A GPU with more links than its model has."""


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        ("ascend-910b-x8", "\nNCCL does not run on ascend-910b-x8, HCCL does"),
        ("unknown.xml", "\nnot known: gpu0 "),
        ("trap.xml", "\ntrap: gpu0 "),
    ],
)
def test_the_machine_is_described_as_for_one_plan(
    ringtree: Ringtree, tmp_path: Path, machine: str, expected: str
) -> None:
    inside = "".join(map(UNKNOWN.format, range(2)))
    linked = "".join(LINKED.format(n, 1 - n) for n in range(2))
    for name, gpus in (("unknown.xml", inside), ("trap.xml", linked)):
        (tmp_path / name).write_text(f'<system version="1"><cpu numaid="0">{gpus}</cpu></system>')
    ranks, topology = (2, str(tmp_path / machine)) if machine.endswith(".xml") else (8, machine)
    plan = ["train", "--heads", "8", "--tp", str(ranks), "--plan", "--topology", topology]
    one, several = ringtree(*plan).out, ringtree(*plan, "--compare", str(ranks)).out
    head = one[one.index("predicted, not measured") : one.index("\na group of tp")]
    assert expected in head and head in several


@pytest.mark.parametrize(("more", "is_default"), [("", True), ("--layers 8", False), ("--width 1024", False)])
def test_the_default_model_is_named_as_such(ringtree: Ringtree, more: str, is_default: bool) -> None:
    out = ringtree("train", *f"--heads 8 --plan --topology dgx-h100 --compare 8 --tflops 400 {more}".split()).out
    assert (out.splitlines()[2].startswith("the default model, ")) == is_default


def test_a_layout_that_fits_in_no_way_is_shown_with_the_least_memory(ringtree: Ringtree, tmp_path: Path) -> None:
    """That of activations that are computed again, unless the options leave it out."""
    file, needed = tmp_path / "layouts.json", dict[str, list[int]]()
    words = f"{MODEL} --dtype bfloat16 --compare 16 --tflops 300 --memory 100M --json {file}"
    for more in ("", "--no-recompute", "--recompute"):
        assert ringtree("train", *words.split(), *more.split()).code == 0
        layouts = sorted(_layouts(file), key=lambda one: [one["layout"][axis] for axis in ("pp", "dp", "tp")])
        assert {one["layout"]["recompute"] for one in layouts} == {more != "--no-recompute"}
        needed[more] = [one["held_nbytes"] + one["saved_nbytes"] for one in layouts]
    assert needed[""] == needed["--recompute"] and min(needed[""]) > 100 << 20
    assert all(again < once for again, once in zip(needed[""], needed["--no-recompute"], strict=True))


def test_micro_batches_that_nobody_gave_divide_the_rows(ringtree: Ringtree, tmp_path: Path) -> None:
    """Three stages, and rows that three do not divide: four micro-batches."""
    file = tmp_path / "layouts.json"
    model = "--layers 6 --heads 6 --width 96 --batch 16 --plan --topology dgx-h100"
    assert ringtree("train", *f"{model} --compare 24 --pp 3 --json {file}".split()).code == 0
    found = {tuple(one["layout"][axis] for axis in ("dp", "tp")): one["layout"] for one in _layouts(file)}
    assert found.keys() == {(4, 2)} and found[4, 2]["micro_batches"] == 4
    out = ringtree("train", *f"{model} --pp 3 --dp 4 --tp 2".split()).out
    assert "each rank 4, in 4 micro-batches" in out


def test_layouts_whose_memory_is_not_known_are_not_called_fitting(ringtree: Ringtree) -> None:
    """As those of asynchronous training, where a server has a part of the weights."""
    out = ringtree("train", *f"{MODEL} --compare 8 --dp 8 --async-staleness 1".split()).out
    assert "%" not in out.splitlines()[7]
    assert "1 layout not known to fit: the memory of asynchronous training is not predicted" in out


def test_layouts_without_a_price_stand_before_those_that_are_too_large(ringtree: Ringtree, tmp_path: Path) -> None:
    file = tmp_path / "layouts.json"
    model = "--layers 24 --heads 48 --width 9600 --batch 48 --sequence 64 --plan --topology dgx-h100"
    out = ringtree("train", *f"{model} --compare 48 --memory 100G --json {file}".split()).out
    found = _layouts(file)
    groups = [
        (one["held_nbytes"] > 100 << 30, bool(one["predicted"]["not_priced_at"] or not one["predicted"]["all_priced"]))
        for one in found
    ]
    assert groups == sorted(groups) and len(set(groups)) > 2
    large = sum(too_large for too_large, _ in groups)
    assert out.rstrip().endswith(f"{large} layouts of more than a GPU's memory, at the end of the table")


@pytest.mark.parametrize(
    ("option", "count", "refused"),
    [
        ("", 16, [(6, "8 heads of attention "), (6, "8 layers cannot be cut into 16 stages")]),
        ("--sp --schedule gpipe", 16, [(6, "8 heads of attention "), (6, "8 layers cannot be cut into 16 stages")]),
        ("--zero 1", 16, [(6, "8 heads of attention "), (6, "8 layers cannot be cut into 16 stages")]),
    ],
)
def test_options_go_with_the_layouts_that_they_have_a_meaning_for(
    ringtree: Ringtree, tmp_path: Path, option: str, count: int, refused: list[tuple[int, str]]
) -> None:
    """Others are compared without them; and of those that cannot be, there is the number, by reason."""
    file = tmp_path / "layouts.json"
    model = "--heads 8 --layers 8 --batch 64 --plan --topology dgx-h100"
    out = ringtree("train", *f"{model} --compare 64 {option} --json {file}".split()).out
    record, layouts = json.loads(file.read_text())["refused"], [one["layout"] for one in _layouts(file)]
    assert len(layouts) == count and f"\n{28 - count} of 28 layouts cannot be: {refused[0][0]} (" in out
    assert [(one["layouts"], one["why"][: len(why)]) for one, (_, why) in zip(record, refused, strict=True)] == refused
    assert all(one["sp"] == ("--sp" in option and one["tp"] > 1) for one in layouts)
    assert all((one["schedule"] == "gpipe") == ("gpipe" in option and one["pp"] > 1) for one in layouts)
    assert all(one["zero"] == ("zero" in option and one["dp"] > 1) for one in layouts)


@pytest.mark.parametrize("options", ["--tflops 300", ""])
def test_what_zero_gathers_counts(ringtree: Ringtree, tmp_path: Path, options: str) -> None:
    """A rank of ZeRO 2 gathers 200 MB of parameters, beside the 16 bytes for each of its share."""
    file = tmp_path / "layouts.json"
    words = f"{MODEL} --dtype bfloat16 --compare 16 --zero 2 --dp 16 --memory 256M {options} --json {file}"
    code, out, _ = ringtree("train", *words.split())
    (one,) = _layouts(file)
    assert code == 0 and one["held_nbytes"] < 128 << 20 < 2 * 100_000_000 < one["gathered_nbytes"]
    assert "1 layout of more than a GPU's memory" in out and "\ngathered: within a step" in out
    assert " memory  gathered  " in out.splitlines()[6]


def test_activations_of_experts_count(ringtree: Ringtree, tmp_path: Path) -> None:
    """Of one expert a token, those of dense layers and more: what goes in, and what comes out twice."""
    file, saved_nbytes = tmp_path / "layouts.json", dict[str, int]()
    for words in ("--dp 16", "--dp 16 --experts 8 --top-k 1", "--dp 16 --experts 8 --top-k 2"):
        out = ringtree(
            "train", *f"{MODEL} --compare 16 {words} --tflops 300 --micro-batches 1 --json {file}".split()
        ).out
        (one,) = _layouts(file)
        saved_nbytes[words] = one["saved_nbytes"]
        assert ("tokens choose them evenly" in out) == ("--experts" in words) and "%" in out.splitlines()[7]
    dense, one, two = saved_nbytes.values()
    tokens, layers, width = 4 * 512, 8, 1024
    assert one - dense == pytest.approx(tokens * layers * 4 * (3 * width + 16), rel=0.01)
    assert two - one == pytest.approx(tokens * layers * 4 * 11 * width, rel=0.01)


def _bubble(layout: dict[str, Any]) -> float:
    """The time of one micro-batch in all stages but the last, which also has the scores, over its own of all."""
    shape, settings = Shape(width=1024, layers=8, heads=16, context=512), TrainingSettings(batch=64)
    plan = TrainingPlan(ParallelLayout(**layout), shape, settings)
    *others, last = (flops(plan, position) for position in range(layout["pp"]))
    return sum(others) / (layout["micro_batches"] * last)


def _layouts(file: Path) -> list[dict[str, Any]]:
    return list(json.loads(file.read_text())["layouts"])


def _step_us(one: dict[str, Any]) -> float:
    return float(one["step_us"])


def test_a_staleness_without_a_bound_is_a_word_in_json(ringtree: Ringtree, tmp_path: Path) -> None:
    """As in the plan's own file: JSON has no infinity."""
    file = tmp_path / "layouts.json"
    words = f"--heads 8 --plan --topology dgx-h100 --compare 8 --dp 8 --async-staleness inf --json {file}"
    assert ringtree("train", *words.split()).code == 0
    assert [one["layout"]["staleness"] for one in _layouts(file)] == ["inf"] and "Infinity" not in file.read_text()


def test_the_memory_of_other_gpus_is_given(ringtree: Ringtree, tmp_path: Path) -> None:
    file = tmp_path / "layouts.json"
    for topology, memory in (("dgx-h100", 80 << 30), ("mi300x8", 192 << 30)):
        words = f"--heads 8 --plan --topology {topology} --compare 8 --tp 8 --json {file}"
        assert ringtree("train", *words.split()).code == 0
        assert json.loads(file.read_text())["memory_nbytes"] == memory


@pytest.mark.parametrize(
    "words, expected",
    [
        ("--compare 8", "--compare predicts layouts on a cluster: expected --plan and --topology as well"),
        ("--compare 8 --plan", "expected --plan and --topology as well"),
        ("--compare 0 --plan --topology dgx-h100", "--compare 0: expected 1 to 16,384 ranks"),
        ("--compare 12 --plan --topology dgx-h100", "12 ranks on machines of 8 GPUs; expected a multiple"),
        ("--compare 8 --tp 3 --plan --topology dgx-h100", "--compare 8: no multiple of tp 3; expected one"),
        ("--compare 8 --tp 0 --plan --topology dgx-h100", "tp is 0; expected at least 1"),
        (
            "--compare 64 --tp 64 --plan --topology dgx-h100",
            "train: 4 heads of attention cannot be divided evenly over 64",
        ),
        (
            "--compare 8 --optimizer adam --plan --topology dgx-h100",
            "train: optimizer is 'adam'; expected one of adamw, sgd",
        ),
        ("--compare 8 --every 2 --plan --topology dgx-h100", "train: --every without --checkpoint"),
        ("--compare 8 --sp --tp 1 --plan --topology dgx-h100", "3 (sequence parallel divides positions over"),
        (
            "--compare 64 --zero 1 --ep 2 --tp 1 --layers 8 --batch 256 --plan --topology dgx-h100",
            "--compare 64: none of 6 layouts can be: 4 (ZeRO 1 gives the state of a whole parameter to one of all",
        ),
        ("--compare 8 --plan --topology dgx-h100 --html page.html", "--plan does not go with --html"),
        ("--compare 8 --plan --topology dgx-h100 --memory much", "--memory much: expected a size above 0 and up to 1P"),
        ("--compare 8 --plan --topology dgx-h100 --memory 1e30", "--memory 1e30: expected a size above 0 and up to 1P"),
        ("--compare 8 --plan --topology dgx-h100 --memory=-5G", "--memory -5G: expected a size above 0 and up to 1P"),
        ("--compare 8 --plan --topology dgx-h100 --memory 0", "--memory 0: expected a size above 0"),
        ("--dp 2 --plan --memory 1G", "--memory marks layouts that need more: expected --compare as well"),
        ("--dp 2 --plan --tflops 400", "--tflops estimates the steps of layouts: expected --compare as well"),
        (
            "--compare 8 --plan --topology dgx-h100 --tflops 0",
            "--tflops 0: expected the rate of a GPU, such as 400",
        ),
        ("--compare 8 --plan --topology dgx-h100 --tflops nan", "--tflops nan: expected the rate of a GPU"),
        ("--compare 8 --plan --topology dgx-h100 --tflops 1e-9", "--tflops 1e-09: expected the rate of a GPU"),
        ("--compare 8 --plan --topology dgx-h100 --tflops 9 --async-staleness 1", "has no common step"),
        ("--compare 8 --plan --topology cpu-2s", "cpu-2s x4 has no GPUs, and"),
    ],
)
def test_a_mistake_is_one_line(ringtree: Ringtree, words: str, expected: str) -> None:
    code, out, err = ringtree("train", *words.split())
    assert code in (1, 2) and not out and expected in err and err.count("\n") == 1
