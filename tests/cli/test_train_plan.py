"""`ringtree train --plan`: its text, its JSON, and its prices."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ringtree.training import Shape, TrainingPlan, TrainingSettings
from ringtree.training.core.flops import model_flops
from tests.cli.conftest import Ringtree
from tests.cli.strict_json import strictly

PLANS = {
    "data": "--dp 4",
    "data_tensor": "--dp 2 --tp 2 --micro-batches 2",
    "many": "--dp 64 --tp 4 --batch 64",
    "on_machines": "--dp 4 --tp 8 --pp 2 --heads 8 --topology dgx-h100",
    "on_shared_nics": "--dp 8 --tp 4 --sp --zero 2 --topology aws-p4d --fabric efa",
    "not_priced": "--dp 8 --tp 3 --heads 3 --vocabulary 258 --topology dgx-h100",
    "own_shape": "--dp 2 --tp 4 --heads 8 --kv-heads 4 --ffn-width 256 --gated --vocabulary 1024 --tied",
}


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_looks_as_before(ringtree: Ringtree, golden: Callable[[str, str], None], name: str) -> None:
    code, out, err = ringtree("train", *PLANS[name].split(), "--plan")
    assert code == 0 and not err
    golden(f"views/train_plan_{name}.txt", out.rstrip("\n"))


@pytest.mark.parametrize("words", [*PLANS.values(), "--dp 2 --elastic", "--ep 2 --dp 2"])
def test_a_plan_is_written_as_json(ringtree: Ringtree, tmp_path: Path, words: str) -> None:
    """Beside its text, with the names that a training's own record has, and all that a step sends."""
    file = tmp_path / "plan.json"
    shown = ringtree("train", *words.split(), "--plan")
    code, out, err = ringtree("train", *words.split(), "--plan", "--json", str(file))
    assert (code, out, err) == shown
    found = strictly(file.read_text())
    assert out.startswith(f"{found['ranks']} ranks: ") and f"model of {found['parameters']:,} parameters" in out
    assert all(f"divided by {', '.join(found['strategies'])}" in out for _ in found["strategies"][:1])
    assert [group["names"] for group in found["groups"]] == [
        line[2:24].split("  ")[0].split(", ") for line in re.findall(r"^  \S.*\{.*$", out, re.MULTILINE)
    ]
    shape, settings = Shape(**found["plan"]["shape"]), TrainingSettings(**found["plan"]["settings"])
    assert found["model_flops"] == model_flops(TrainingPlan(shape=shape, settings=settings))
    assert found["traffic"] and all(sent["what"] in out and sent["wire_nbytes"] > 0 for sent in found["traffic"])


def test_the_times_of_a_plan_are_written_as_json(ringtree: Ringtree, tmp_path: Path) -> None:
    """With the sum of all calls, and each call's time as `ringtree plan` has it."""
    file, other = tmp_path / "plan.json", tmp_path / "all_reduce.json"
    words = "--dp 4 --tp 8 --heads 8 --width 1024 --plan --topology dgx-h100 --json"
    assert ringtree("train", *words.split(), str(file)).code == 0
    found = strictly(file.read_text())["predicted"]
    assert found["cluster"]["nodes"] == 4 and found["cluster"]["machine"] == "dgx-h100" and not found["not_priced_at"]
    for end in ("time_us", "low_us", "high_us"):
        assert found[end] == pytest.approx(sum(c["times"] * c[end] for c in found["calls"]))
    tp, loss, data = found["calls"]
    assert (tp["axis"], tp["ranks"], tp["nodes"], tp["gpus"], tp["times"]) == ("tp", 8, 1, [*range(8)], 18)
    assert (loss["axis"], loss["times"]) == ("tp", 3)
    assert (data["axis"], data["ranks"], data["nodes"], data["gpus"], data["groups_a_nic"]) == ("data", 4, 4, [0], 1)
    for call, where in ((tp, "--nodes 1"), (data, "--nodes 4 --gpus 1")):
        words = f"all_reduce --topology dgx-h100 {where} --bytes {call['nbytes']} --json"
        assert ringtree("plan", *words.split(), str(other)).code == 0
        (row,) = strictly(other.read_text())["rows"]
        for name in ("algorithm", "protocol", "time_us", "low_us", "high_us"):
            assert call[name] == pytest.approx(row[name]) if name.endswith("_us") else call[name] == row[name]


def test_why_a_call_has_no_time_is_written_as_json(ringtree: Ringtree, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    code, out, _ = ringtree("train", *PLANS["not_priced"].split(), "--plan", "--json", str(file))
    found = strictly(file.read_text())["predicted"]
    assert code == 0 and found["time_us"] is None and not found["all_priced"]
    assert all(c["not_priced"] in out and "time_us" not in c for c in found["calls"])


IN_ANY_TYPE = ("tokens for each expert", "maxima, sums and picks of the scores")
"""Numbers of tokens, and what a loss is made of: float32 is in it whatever the type."""


@pytest.mark.parametrize("words", ["--dp 4 --tp 8 --heads 8", "--pp 2 --cp 2", "--ep 4 --zero 3", "--dp 8 --zero 1"])
def test_a_plan_in_bfloat16_sends_half_the_bytes(ringtree: Ringtree, tmp_path: Path, words: str) -> None:
    """But for the counts of tokens, which are integers."""
    found = []
    for dtype in ("float32", "bfloat16"):
        file = str(tmp_path / dtype)
        words_of = (*words.split(), "--batch", "64", "--plan", "--topology", "dgx-h100", "--dtype", dtype)
        assert ringtree("train", *words_of, "--json", file).code == 0
        found.append(strictly(Path(file).read_text()))
    whole, half = found
    assert (whole["dtype"], half["dtype"]) == ("float32", "bfloat16")
    assert half["predicted"]["time_us"] < whole["predicted"]["time_us"]
    for kind in ("traffic", "predicted"):
        rows = [f["traffic"] if kind == "traffic" else f["predicted"]["calls"] for f in found]
        sums = [sum(r["nbytes"] * r.get("times", 1) for r in side if r["what"] not in IN_ANY_TYPE) for side in rows]
        assert sums[0] == 2 * sums[1] > 0


def test_a_step_that_sends_nothing_takes_no_time(ringtree: Ringtree) -> None:
    code, out, err = ringtree("train", "--plan", "--topology", "dgx-h100")
    assert code == 0 and not err and out.rstrip().endswith("a step sends nothing")


def test_a_plan_needs_no_torch() -> None:
    program = "import sys\nsys.modules['torch'] = None\nfrom ringtree.cli import main\nsys.exit(main(sys.argv[1:]))\n"
    words = [sys.executable, "-c", program, "train", "--dp", "2"]
    done = subprocess.run([*words, "--plan"], capture_output=True, text=True)
    assert done.returncode == 0 and "2 ranks: dp 2" in done.stdout, done.stderr
    done = subprocess.run([*words, "--steps", "1"], capture_output=True, text=True)
    assert done.returncode == 1 and not done.stdout
    assert done.stderr == "ringtree train: training needs torch: pip install torch (--plan needs none)\n"
