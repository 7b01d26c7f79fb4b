"""`ringtree train`: its ranks, its mistakes, how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.cli.conftest import Ringtree
from tests.cli.strict_json import strictly
from tests.waiting import interruptible

SMALL = ("--width", "16", "--layers", "2", "--sequence", "8", "--batch", "4")
HOW = ("", "--plan", "--dp 2", "--dp 2 --plan", "--elastic --dp 2", "--elastic --dp 2 --plan")
"""Ways to train or to plan, of which each refuses what another does."""
MISTAKES = [
    ("--dp 0", "dp is 0; expected at least 1"),
    ("--dp two", "--dp: invalid int value: 'two'"),
    ("--dp 3", "a batch of 16 rows cannot be divided evenly into 3 parts"),
    ("--pp 3 --dp 3 --layers 6", "a batch of 16 rows cannot be divided evenly into 3 parts (dp x ep)"),
    ("--pp 4 --dp 8", "and there are 2 of the 2 rows of a rank: use a larger --batch, or --schedule gpipe"),
    (
        "--pp 3 --micro-batches 2",
        "2 of the 16 rows of a rank: use --micro-batches 4, or --schedule gpipe",
    ),
    ("--dp 1000000 --batch 1000000", "a plan of 1,000,000 ranks; expected at most 131,072"),
    ("--layers 10000000", "a plan of 10,000,000 layers; expected at most 16,384"),
    ("--zero 4", "zero is 4; expected 0, 1, 2 or 3"),
    ("--pp 2 --schedule zigzag", "schedule is 'zigzag'; expected one of naive, gpipe, 1f1b, interleaved"),
    ("--schedule gpipe", "--schedule without --pp: it sets the order of a pipeline"),
    ("--server central", "--server without --async-staleness"),
    ("--context ring", "--context without --cp"),
    ("--async-staleness -1", "staleness is -1; expected 0, 1, 2"),
    (
        "--async-staleness 1 --dp 2 --picture step.svg",
        "--picture: ranks of asynchronous training have no common order of calls",
    ),
    ("--async-staleness soon", "--async-staleness: 'soon'; expected 0, 1, 2 … or inf"),
    ("--slow-factor 2", "--slow-factor without --slow-rank"),
    ("--top-k 1", "--top-k without --experts or --ep"),
    ("--top-k 2 --experts 0", "--top-k without --experts or --ep: it sets the number of experts per token"),
    ("--capacity-factor 2 --experts 0 --ep 1", "--capacity-factor without --experts or --ep"),
    ("--balance 0 --experts 0", "--balance without --experts or --ep"),
    ("--experts -1", "experts is -1; expected at least 0"),
    ("--experts 4 --capacity-factor 0", "capacity_factor is 0.0; expected a positive number"),
    ("--experts 4 --balance nan", "balance is nan; expected 0 or a positive number"),
    ("--seed 99999999999", "seed is 99999999999; expected at most 4,294,967,295"),
    ("--steps 0", "steps is 0; expected at least 1"),
    ("--rate 1e12", "rate is 1000000000000.0; expected a number above 0 and below 1,000,000"),
    ("--rate 0", "rate is 0.0; expected a number above 0 and below 1,000,000"),
    ("--optimizer newton", "optimizer is 'newton'; expected one of adamw, sgd"),
    ("--heads 5", "a width of 96 is not a multiple of 5 heads"),
    ("--layers 0", "the model's layers is 0; expected at least 1"),
    ("--kv-heads 0", "the model's kv_heads is 0; expected at least 1"),
    ("--head-width 0", "the model's head_width is 0; expected at least 1"),
    ("--kv-heads 3", "4 heads are not a multiple of 3 key-value heads"),
    ("--ffn-width -4", "the model's ffn_width is -4; expected at least 1"),
    ("--vocabulary 255", "a vocabulary of 255; expected at least 256, all bytes of a text"),
    ("--kv-heads 2 --tp 4", "2 key-value heads cannot be divided evenly over 4 tensor parallel ranks (tp): use a --tp"),
    ("--vocabulary 257 --tp 2", "a vocabulary of 257 cannot be divided evenly over 2 tensor parallel ranks (tp): use"),
    ("--ffn-width 100 --gated --tp 8 --heads 8", "a feed-forward width of 100 cannot be divided evenly over 8 tensor"),
    ("--kv-heads 1 --cp 2 --context ulysses", "1 key-value head cannot be divided evenly over 2 ranks (cp x tp)"),
    ("--tied --pp 2", "a pipeline's first stage has the one and its last stage the other (pp): leave --tied out"),
    ("--keep 2", "--keep without --checkpoint: it sets how many checkpoints stay"),
    ("--checkpoint c --keep 0", "--keep 0: expected at least 1"),
    ("--elastic", "--elastic without --dp: expected at least 2 ranks"),
    ("--max-restarts 1", "--max-restarts without --elastic: it sets how often a rank that died is started again"),
    ("--elastic --dp 2 --max-restarts -1", "--max-restarts -1: expected 0 or more"),
    ("--elastic --dp 2 --zero 1", "--elastic does not go with --zero: a rank that is left must have the whole model"),
    ("--elastic --dp 2 --sp", "--elastic does not go with --sp: a rank that is left must have the whole model"),
    ("--elastic --dp 2 --tp 2", "--elastic does not go with --tp: a rank that is left"),
    ("--elastic --dp 2 --async-staleness 0", "--elastic does not go with --async-staleness"),
    ("--elastic --dp 2 --slow-rank 0", "--elastic does not go with --slow-rank: the ranks' numbers change"),
    ("--elastic --dp 2 --html page.html", "--elastic does not go with --html: it shows the last step of ranks"),
    ("--elastic --dp 5 --batch 4", "a batch of 4 rows for 5 ranks; expected a row for each at least"),
    ("--plan --html page.html", "--plan does not go with --html: it starts no rank, whose last step"),
    ("--plan --trace step.json", "--plan does not go with --trace: it starts no rank"),
    ("--plan --picture step.svg", "--plan does not go with --picture: it starts no rank"),
    ("--plan --checkpoint c --json c.json", "--plan does not go with --checkpoint: it takes no step"),
    ("--plan --json missing/plan.json", "no such folder to write to"),
    ("--dp 2 --dtype bfloat16", "--dtype bfloat16 is of a plan: expected --plan as well, ranks train in float32"),
    ("--plan --dtype int8", "dtype is 'int8'; expected one of float32, bfloat16, float16"),
    ("--dp 8 --topology dgx-h100", "--topology names a cluster, on which nothing is started: expected --plan as well"),
    ("--dp 8 --plan --fabric roce", "--fabric describes a cluster: expected --topology NAME|FILE as well"),
    ("--dp 8 --sharp", "--sharp describes a cluster: expected --topology NAME|FILE as well"),
    ("--dp 8 --plan --nccl 2.27", "--nccl describes a cluster: expected --topology NAME|FILE as well"),
    (
        "--dp 12 --batch 12 --plan --topology dgx-h100",
        "--topology dgx-h100: 12 ranks on machines of 8 GPUs; expected a multiple",
    ),
    ("--dp 2 --plan --topology cpu-2s", "cpu-2s has no GPUs, and NCCL's algorithms are for GPUs"),
    ("--dp 2 --plan --topology nowhere", "'nowhere' is neither a machine's name nor a file"),
    (
        "--dp 8 --plan --topology dgx-h100 --network rails",
        "--network: 8 ranks are on one dgx-h100, which has no network",
    ),
    ("--dp 16 --plan --topology dgx-h100 --fabric string", "--fabric string: expected one of"),
    (
        "--dp 16 --plan --topology mi250x8 --sharp",
        "--sharp: 16 ranks are on one mi250x8, which has no network; expected more ranks",
    ),
    *((f"--sequence 5000000 {how}", "a sequence of 5,000,000 bytes; expected at most ") for how in HOW),
]


@pytest.mark.parametrize(("words", "expected"), MISTAKES)
def test_a_mistake_is_one_line(ringtree: Ringtree, words: str, expected: str) -> None:
    code, out, err = ringtree("train", *words.split())
    assert code and not out
    assert expected in err and err.count("\n") == 1


@pytest.mark.torch
def test_a_checkpoint_that_cannot_be_written_is_refused_before_training(ringtree: Ringtree, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for folder in (file, file / "below"):
        code, out, err = ringtree("train", "--steps", "1", "--checkpoint", str(folder))
        assert code and not out and f"{file} is a file; expected a folder to write to" in err
    code, out, err = ringtree("train", "--steps", "1", "--checkpoint", "/proc/below")
    assert code and not out and "/proc/below cannot be written" in err


def command(*words: str, launcher: tuple[str, ...] = (), **env: str) -> subprocess.CompletedProcess[str]:
    program = [*(launcher or (sys.executable, "-m", "ringtree.cli")), "train", *SMALL, *words]
    return subprocess.run(program, env={**os.environ, **env}, capture_output=True, text=True, stdin=subprocess.DEVNULL)


@pytest.fixture
def train(ringtree: Ringtree) -> Ringtree:
    """`ringtree train` of a small model in this process, on one thread: ranks that are forked later have no other."""
    import torch

    torch.set_num_threads(1)
    return partial(ringtree, "train", *SMALL)


@pytest.mark.torch
def test_only_one_rank_speaks_and_the_losses_are_those_of_one(train: Ringtree) -> None:
    alone, two = train("--steps", "2"), command("--steps", "2", "--dp", "2")
    assert alone.code == two.returncode == 0, alone.err + two.stderr
    losses = re.findall(r"^step .*loss \d+\.\d+", two.stdout, re.MULTILINE)
    assert len(losses) == 2 and losses == re.findall(r"^step .*loss \d+\.\d+", alone.out, re.MULTILINE)


@pytest.mark.torch
@pytest.mark.parametrize("how", ["--dp 1 --experts 2 --html {}/x.html", "--dp 2 --elastic"])
def test_a_loss_that_diverged_is_written_and_named(train: Ringtree, tmp_path: Path, how: str) -> None:
    file, words = tmp_path / "x.json", f"--steps 12 --optimizer sgd --rate 1e5 {how.format(tmp_path)}".split()
    code, out, err = train(*words, "--json", str(file))
    assert code == 0, err
    assert re.search(r"the loss is no finite number from step [2-9] on", out), out
    assert strictly(file.read_text())["steps"][-1]["loss"] == "nan"
    assert (tmp_path / "x.html").exists() == ("--html" in words)


@pytest.mark.torch
@pytest.mark.parametrize("elastic", [[], ["--elastic"]], ids=["fixed", "elastic"])
def test_resuming_what_is_done_has_its_result(train: Ringtree, tmp_path: Path, elastic: list[str]) -> None:
    words = ["--checkpoint", str(tmp_path / "c"), "--steps"]
    assert train(*words, "2").code == 0
    (before,) = (tmp_path / "c").iterdir()
    written = before.stat()
    if elastic:
        printed = command(*words, "2", "--resume", "--dp", "2", *elastic).stdout
    else:
        printed = train(*words, "2", "--resume", "--json", str(tmp_path / "x.json")).out
        code, out, err = train(*words, "1", "--resume")
        assert code == 1 and err.count("\n") == 1 and "2 steps are done already; expected" in err
        assert "resumed" not in out and f"{before}: 2 steps" in err and "expected --steps 2 or more" in err
    assert printed.count("2 steps asked for, and done already: nothing is left") == 1
    assert elastic or "nothing is written by --json" in printed
    assert before.stat() == written, "it is not written again"


@pytest.mark.torch
@pytest.mark.parametrize("elastic", [[], ["--dp", "2", "--elastic"]], ids=["fixed", "elastic"])
def test_the_last_checkpoints_stay(train: Ringtree, tmp_path: Path, elastic: list[str]) -> None:
    code, _, err = train("--steps", "4", "--checkpoint", str(tmp_path / "c"), "--every", "1", "--keep", "2", *elastic)
    assert code == 0, err
    assert sorted(file.name for file in (tmp_path / "c").iterdir()) == ["step-00000003", "step-00000004"]


LAUNCHERS = ["torchrun --nproc-per-node 2", "ringtree run -n 2"]


def as_started(launcher: str) -> tuple[str, ...]:
    """The words with which a launcher of this environment starts the command."""
    program, *options = launcher.split()
    return str(Path(sys.executable).parent / program), *options, "-m", "ringtree.cli"


def _is_rank(patch: pytest.MonkeyPatch, launcher: str, rank: int, size: int) -> None:
    """Sets what a launcher sets for its rank."""
    names = ("RANK", "WORLD_SIZE") if launcher == "torchrun" else ("RINGTREE_RANK", "RINGTREE_WORLD_SIZE")
    for name, value in zip(names, (rank, size), strict=True):
        patch.setenv(name, str(value))


@pytest.mark.torch
@pytest.mark.parametrize("launcher", [LAUNCHERS[0], pytest.param(LAUNCHERS[1], marks=pytest.mark.slow)])
def test_ranks_that_another_starts(launcher: str) -> None:
    done = command("--steps", "1", "--dp", "2", launcher=as_started(launcher))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("step 1/1") == 1


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_launchers_of_another_number_of_ranks_hear_of_it_once(launcher: str) -> None:
    done = command("--steps", "1", "--dp", "4", launcher=as_started(launcher))
    assert done.returncode and done.stderr.count("the layout is for 4 ranks, and ") == 1, done.stderr


@pytest.mark.torch
@pytest.mark.parametrize("launcher", ["torchrun", "ringtree run"])
def test_another_number_of_ranks_is_refused_by_one_of_them(
    ringtree: Ringtree, monkeypatch: pytest.MonkeyPatch, launcher: str
) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")  # as torchrun sets it
    monkeypatch.setattr("ringtree.cli.train.ranks.REPORTS_S", 0.0)
    printed = []
    for rank in range(2):
        _is_rank(monkeypatch, launcher, rank, 2)
        code, out, err = ringtree("train", *SMALL, "--steps", "1", "--dp", "4")
        assert code and not out
        printed.append(err)
    assert printed == [f"ringtree train: the layout is for 4 ranks, and {launcher} started 2\n", ""]


@pytest.mark.torch
@pytest.mark.parametrize("launcher", ["torchrun", "ringtree run"])
def test_elastic_ranks_of_another_launcher_are_refused(ringtree: Ringtree, launcher: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        _is_rank(patch, launcher, 0, 2)
        code, out, err = ringtree("train", "--dp", "2", "--elastic")
    assert code and not out and err.count("\n") == 1
    assert f"--elastic: {launcher} has started this rank; expected this command to start the ranks itself" in err


@pytest.mark.torch
def test_an_error_on_a_rank_is_printed_once_with_its_rank() -> None:
    done = command("--dp", "2", RINGTREE_TIMEOUT="-1")
    lines = [line for line in done.stderr.splitlines() if "ringtree train: " in line]
    assert done.returncode and len(lines) == 1 and "RINGTREE_TIMEOUT is '-1'" in lines[0]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("timeout", "expected"),
    [
        ("0.001", "rank (0 did not come to the group|1: The client socket has timed out)"),  # or does connect in time
        ("0.3", "rank 0 did not come to the group of 2 ranks within"),
    ],
)
def test_a_timeout_is_a_line_without_torchs_own(timeout: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a rank whose rank 0, but for its store, never comes."""
    from torch.distributed import TCPStore

    monkeypatch.delenv("TORCH_CPP_LOG_LEVEL", raising=False)  # which a command in this process has set
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    launched = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    launched |= {"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    done = command("--steps", "1", "--dp", "2", "--timeout", timeout, MASTER_PORT=str(store.port), **launched)
    assert done.returncode == 1 and not done.stdout
    assert re.match(f"ringtree train: {expected}", done.stderr) and done.stderr.count("\n") == 1, done.stderr


@pytest.mark.torch
def test_a_job_resumes_from_a_checkpoint_under_another_layout(train: Ringtree, tmp_path: Path) -> None:
    folder = str(tmp_path / "checkpoints")
    first = train("--steps", "2", "--checkpoint", folder)
    assert first.code == 0, first.err
    again = train("--steps", "2", "--checkpoint", folder)
    assert again.code and again.err.startswith(f"ringtree train: {folder} has checkpoints; expected --resume")
    changed = "--seed", "3", "--rate", "0.01"
    on = command(
        "--steps", "3", "--tp", "2", "--checkpoint", folder, "--resume", *changed, "--json", str(tmp_path / "on.json")
    )
    printed = on.stdout + on.stderr
    assert f"resumed from {folder}" in printed and ", with seed 3 instead of 0, rate 0.01 instead of 0.001\n" in printed
    assert on.returncode == 0 and "step 3/3" in on.stdout and "step 2/3" not in on.stdout, on.stderr
    assert [step["step"] for step in json.loads((tmp_path / "on.json").read_text())["steps"]] == [3]


@pytest.mark.torch
def test_an_interrupt_ends_it_without_a_word_of_where_each_rank_was() -> None:
    program = [sys.executable, "-m", "ringtree.cli", "train", *SMALL, "--dp", "2", "--steps", "2000"]
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=interruptible,  # noqa: PLW1509  # it takes no lock
    ) as job:  # fmt: skip
        assert job.stdout is not None and job.stdout.readline().startswith("step")
        job.send_signal(signal.SIGINT)
        _, err = job.communicate()
    assert job.returncode == 130 and "KeyboardInterrupt" not in err and err.count("\n") <= 1
