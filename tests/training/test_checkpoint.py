"""A checkpoint of one layout resumes under another and reaches the result of one process."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path, PosixPath
from typing import Any

import pytest

from ringtree.training import ParallelLayout, Shape, TrainingPlan, TrainingSettings
from tests.torch_backend.conftest import Worlds

TOLERANCE = 1e-4
STEPS = 4
AT = 2
"""Steps after which the checkpoint is written."""
LAYOUTS = {
    "one process": ParallelLayout(),
    "dp2": ParallelLayout(dp=2),
    "zero1 x 2": ParallelLayout(dp=2, zero=1),
    "zero1 tp2": ParallelLayout(dp=2, tp=2, zero=1),
    "zero2 x 2": ParallelLayout(dp=2, zero=2),
    "zero3 x 4": ParallelLayout(dp=4, zero=3),
    "tp2": ParallelLayout(tp=2),
    "pp2": ParallelLayout(pp=2, micro_batches=2),
    "pp2 naive": ParallelLayout(pp=2, schedule="naive"),
    "dp2 x tp2": ParallelLayout(dp=2, tp=2),
    "zero2 x sp2": ParallelLayout(dp=2, tp=2, sp=True, zero=2),
    "zero3 x pp2": ParallelLayout(dp=2, pp=2, zero=3, micro_batches=2),
    "zero1 x pp2": ParallelLayout(dp=2, pp=2, zero=1, micro_batches=2),
    "sharded server x 2": ParallelLayout(dp=2, staleness=0),
    "peers x 2": ParallelLayout(dp=2, staleness=0, server="peers"),
}
CYCLE = (
    "one process", "dp2", "zero3 x 4", "tp2", "zero1 tp2", "zero2 x 2", "zero1 x 2", "pp2", "zero3 x pp2", "dp2 x tp2",
    "pp2 naive", "zero2 x sp2", "zero1 x pp2", "sharded server x 2", "peers x 2", "one process",
)  # fmt: skip
"""Each writes what the next reads: every layout writes once, and reads once."""
CHAIN = (
    "one process", "dp2", "zero3 x 4", "tp2", "zero1 tp2", "zero2 x 2", "zero1 x 2", "one process", "zero3 x 4",
    "zero1 x 2", "tp2", "one process", "pp2", "zero3 x 4", "zero3 x pp2", "dp2 x tp2", "pp2 naive", "zero2 x sp2",
    "zero1 x pp2", "dp2", "sharded server x 2", "peers x 2", "one process",
)  # fmt: skip
"""More pairs of a writer and a reader, for the long campaign."""
PAIRS = [
    *pairwise(CYCLE),
    *(pytest.param(*pair, marks=pytest.mark.slow) for pair in sorted({*pairwise(CHAIN)} - {*pairwise(CYCLE)})),
]


def plan_of(layout: ParallelLayout, **settings: Any) -> TrainingPlan:
    # Of 12 rows, a width that four ranks divide unevenly.
    settings = {"steps": STEPS, "batch": 8, "rate": 1e-2} | settings
    return TrainingPlan(layout, Shape(width=12, layers=2, heads=4, context=10), TrainingSettings(**settings))


def _write(plan: TrainingPlan, folder: Path) -> Path:
    from ringtree.training import Trainer
    from ringtree.training.core.checkpoint import save

    trainer = Trainer(plan)
    for _ in range(AT):
        trainer.step()
    made = save(trainer, folder)
    trainer.close()
    return made


def _go_on(plan: TrainingPlan, folder: Path, done: int = AT) -> tuple[list[float], dict[str, Any]]:
    """Losses and weights of a trainer that began with other weights, by its last checkpoint."""
    from ringtree.training import Trainer
    from ringtree.training.core.checkpoint import latest, load

    trainer = Trainer(replace(plan, settings=replace(plan.settings, seed=9)))
    trainer.plan = plan
    found = latest(folder)
    assert found is not None
    load(trainer, found)
    assert trainer.steps_done == done
    losses = [trainer.mean_loss(trainer.step()) for _ in range(plan.settings.steps - done)]
    weights = {name: value.numpy() for name, value in trainer.weights().items()}
    trainer.close()
    return losses, weights


def _run(worlds: Worlds, function: Any, plan: TrainingPlan, folder: Path) -> Any:
    """On the ranks of a layout, or of one process here; rank 0's result."""
    return worlds(plan.layout.ranks).run(function, plan, folder)[0] if plan.layout.ranks > 1 else function(plan, folder)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of one process, which no test changes."""
    return _write(plan_of(ParallelLayout()), tmp_path_factory.mktemp("written"))


@pytest.fixture
def checkpoint(written: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed, in `tmp_path`."""
    return Path(shutil.copytree(written, tmp_path / written.name))


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_one_layout_resumes_from_anothers_checkpoint(worlds: Worlds, first: str, second: str, tmp_path: Path) -> None:
    from tests.training.reference import alone

    expected, weights, _ = alone(plan_of(LAYOUTS[second]))
    assert _run(worlds, _write, plan_of(LAYOUTS[first]), tmp_path) == tmp_path / "step-00000002"
    losses, its = _run(worlds, _go_on, plan_of(LAYOUTS[second]), tmp_path)
    assert losses == pytest.approx(expected[AT:], abs=TOLERANCE, rel=TOLERANCE)
    for name, value in weights.items():
        assert its[name] == pytest.approx(value.numpy(), abs=TOLERANCE, rel=TOLERANCE)


@pytest.mark.parametrize(
    ("first", "second"), [(ParallelLayout(ep=2), ParallelLayout(dp=2)), (ParallelLayout(dp=2), ParallelLayout(ep=2))]
)
def test_experts_go_to_other_ranks(
    worlds: Worlds, first: ParallelLayout, second: ParallelLayout, tmp_path: Path
) -> None:
    from tests.training.reference import alone

    shape = Shape(width=12, layers=2, heads=4, context=10, experts=4)
    wrote, reads = (replace(plan_of(layout), shape=shape) for layout in (first, second))
    _run(worlds, _write, wrote, tmp_path)
    losses, _ = _run(worlds, _go_on, reads, tmp_path)
    assert losses == pytest.approx(alone(reads)[0][AT:], abs=TOLERANCE, rel=TOLERANCE)


def _unfinished(checkpoint: Path) -> None:
    checkpoint.rename(checkpoint.parent / f".{checkpoint.name}.unfinished")


def _cut(checkpoint: Path) -> None:
    file = next(checkpoint.glob("*.distcp"))
    file.write_bytes(file.read_bytes()[:-1])


def _flipped(checkpoint: Path) -> None:
    file = next(checkpoint.glob("*.distcp"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def _lost(checkpoint: Path) -> None:
    next(checkpoint.glob("*.distcp")).unlink()


def _without_facts(checkpoint: Path) -> None:
    (checkpoint / "training.json").unlink()


DAMAGES = {
    _cut: r"step-00000002 is broken: .*distcp is not as it was written",
    _flipped: r"step-00000002 is broken: .*distcp is not as it was written",
    _lost: r"step-00000002 is broken: .*distcp is missing",
    _without_facts: r"step-00000002 is no finished checkpoint: its training.json cannot be read .*; without its folder",
}


class _Runs:
    """An object whose unpickling makes a file."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.made),)


def _rewritten(checkpoint: Path, change: Callable[[Any], Any]) -> None:
    """Another table of contents, with the digest that belongs to it."""
    from ringtree.training.core.checkpoint import _digests

    file, facts = checkpoint / ".metadata", checkpoint / "training.json"
    file.write_bytes(pickle.dumps(change(pickle.loads(file.read_bytes()))))
    facts.write_text(json.dumps(json.loads(facts.read_text()) | {"files": _digests(checkpoint)}))


def _names_a_function(metadata: Any, made: Path) -> Any:
    return _Runs(made)


def _names_a_function_beside_its_table(metadata: Any, made: Path) -> Any:
    metadata.planner_data = {"weights/x": _Runs(made)}
    return metadata


class _Attribute:
    """What Python 3.11.0 to 3.11.2 pickle of a member of an enumeration."""

    def __init__(self, of: Any, name: str) -> None:
        self._of, self._name = of, name

    def __reduce__(self) -> Any:
        return getattr, (self._of, self._name)


def _names_an_attribute(metadata: Any, made: Path) -> Any:
    metadata.planner_data = {"weights/x": _Attribute(PosixPath, "mkdir")}
    return metadata


def _has_an_object(metadata: Any, made: Path) -> Any:
    from torch.distributed.checkpoint.metadata import BytesStorageMetadata

    metadata.state_dict_metadata["optimizer/0/step"] = BytesStorageMetadata()
    return metadata


def _names_a_file_elsewhere(metadata: Any, made: Path) -> Any:
    next(iter(metadata.storage_data.values())).relative_path = "../elsewhere"
    return metadata


def _names_a_place_that_is_no_number(metadata: Any, made: Path) -> Any:
    next(iter(metadata.storage_data.values())).offset = "0"
    return metadata


HOSTILE = {
    _names_a_place_that_is_no_number: r"no table of contents of a checkpoint .can only concatenate str",
    _names_a_function: r"names posix.mkdir; expected a table of tensors",
    _names_a_function_beside_its_table: r"names posix.mkdir; expected a table of tensors",
    _names_an_attribute: r"names builtins.getattr of .*PosixPath.*; expected a table of tensors",
    _has_an_object: r"names .*BytesStorageMetadata; expected a table of tensors",
    _names_a_file_elsewhere: r"names '../elsewhere'; expected files of its own folder",
}


@pytest.mark.parametrize("change", HOSTILE)
def test_a_checkpoint_runs_nothing(change: Any, checkpoint: Path, tmp_path: Path) -> None:
    """Its own digests are right: whoever writes a checkpoint writes them, too."""
    made = tmp_path / "made"
    _rewritten(checkpoint, lambda metadata: change(metadata, made))
    with pytest.raises(ValueError, match=HOSTILE[change]):
        _go_on(plan_of(ParallelLayout()), tmp_path)
    assert not made.exists()


def test_members_of_enumerations_are_read_as_any_python_writes_them() -> None:
    from torch.distributed.checkpoint.metadata import _MEM_FORMAT_ENCODING

    from ringtree.training.core.checkpoint_reader import _Tables

    for member in _MEM_FORMAT_ENCODING:
        for written in (member, _Attribute(_MEM_FORMAT_ENCODING, member.name)):
            assert _Tables(io.BytesIO(pickle.dumps(written))).load() is member


@pytest.mark.timeout(60)
def test_a_pipe_in_a_checkpoint_is_not_waited_for(checkpoint: Path, tmp_path: Path) -> None:
    os.mkfifo(checkpoint / "pipe")
    facts = checkpoint / "training.json"
    written = json.loads(facts.read_text())
    facts.write_text(json.dumps(written | {"files": written["files"] | {"pipe": ""}}))
    with pytest.raises(ValueError, match="a pipe; expected a file of a checkpoint"):
        _go_on(plan_of(ParallelLayout()), tmp_path)


@pytest.mark.timeout(60)
def test_a_file_that_is_none_of_a_checkpoints_is_not_read(checkpoint: Path, tmp_path: Path) -> None:
    """To read a file of 4 TB would take an hour."""
    with (checkpoint / "more").open("wb") as file:
        file.truncate(1 << 42)
    _go_on(plan_of(ParallelLayout()), tmp_path)
    _rewritten_facts(checkpoint, lambda facts: facts["files"].pop("__0_0.distcp"))
    with pytest.raises(ValueError, match=r"names '__0_0.distcp'; expected files of its own folder"):
        _go_on(plan_of(ParallelLayout()), tmp_path)


def _rewritten_facts(checkpoint: Path, change: Callable[[Any], Any]) -> None:
    facts = json.loads((checkpoint / "training.json").read_text())
    change(facts)
    (checkpoint / "training.json").write_text(json.dumps(facts))


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ([], r"got \[\]; expected an object"),
        (1, "got 1; expected an object"),
        ({"files": []}, r"files: got \[\]; expected an object"),
        ({"files": 1}, "files: got 1; expected an object"),
        ({"files": {"x": 1}}, "files: got 'x': 1; expected a file's name and its digest"),
        ({"files": {"../x": ""}}, "files: got '../x': ''; expected a file's name"),
        ({"shape": None}, "shape: got None; expected an object"),
        ({"settings": []}, r"settings: got \[\]; expected an object"),
        ({"steps": "x"}, "steps: got 'x'; expected a whole number"),
        ({"steps": 1e308}, r"steps: got 1e\+308; expected a whole number"),
        ({"steps": -1}, "steps: got -1; expected a whole number"),
    ],
)
def test_facts_of_another_type_are_refused(facts: Any, reason: str, checkpoint: Path, tmp_path: Path) -> None:
    file = checkpoint / "training.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | facts if isinstance(facts, dict) else facts))
    with pytest.raises(ValueError, match=f"no finished checkpoint: its training.json cannot be read .{reason}"):
        _go_on(plan_of(ParallelLayout()), tmp_path)


def test_a_file_cut_short_and_one_of_something_else_are_named(checkpoint: Path, tmp_path: Path) -> None:
    file = checkpoint / "__0_0.distcp"
    length = file.stat().st_size
    os.truncate(file, length - 1)
    _rewritten(checkpoint, lambda metadata: metadata)
    with pytest.raises(ValueError, match=re.escape(f"{file}: cut short; expected tensors as ")):
        _go_on(plan_of(ParallelLayout()), tmp_path)
    file.write_bytes(pickle.dumps(_Runs(tmp_path / "made")).ljust(length, b"."))
    _rewritten(checkpoint, lambda metadata: metadata)
    with pytest.raises(OSError, match=r"cannot be read: rank 0: \S+"):
        _go_on(plan_of(ParallelLayout()), tmp_path)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("damage", DAMAGES)
def test_broken_checkpoints_are_refused(damage: Any, checkpoint: Path, tmp_path: Path) -> None:
    damage(checkpoint)
    with pytest.raises(ValueError, match=DAMAGES[damage]):
        _go_on(plan_of(ParallelLayout()), tmp_path)


def test_unfinished_checkpoints_are_ignored(tmp_path: Path) -> None:
    from ringtree.training.core.checkpoint import latest

    assert latest(tmp_path) is None and latest(tmp_path / "absent") is None
    _unfinished(_write(plan_of(ParallelLayout()), tmp_path))
    (tmp_path / ".step-00000011.unfinished").mkdir()  # of a disk that was full
    assert latest(tmp_path) is None
    made = _write(plan_of(ParallelLayout()), tmp_path)
    assert latest(tmp_path) == made == _write(plan_of(ParallelLayout()), tmp_path), "one of as many steps is replaced"
    assert [file.name for file in tmp_path.iterdir()] == ["step-00000002"]


def test_the_one_of_most_steps_is_the_latest(tmp_path: Path) -> None:
    from ringtree.training.core.checkpoint import latest

    for name in ("step-00000009", "step-00000010", "step-100000000", ".step-200000000.unfinished", "step-9.old"):
        (tmp_path / name).mkdir()
    assert latest(tmp_path) == tmp_path / "step-100000000"


def _refused(plan: TrainingPlan, folder: Path) -> str:
    """Each rank's error text; the group goes on."""
    from ringtree.training import Trainer
    from ringtree.training.core.checkpoint import latest, load

    trainer, found = Trainer(plan), latest(folder)
    assert found is not None
    with pytest.raises(ValueError, match="another training") as caught:
        load(trainer, found)
    trainer.mean_loss(trainer.step())
    return str(caught.value)


def test_another_model_is_refused_on_every_rank(worlds: Worlds, checkpoint: Path, tmp_path: Path) -> None:
    other = replace(
        plan_of(ParallelLayout(dp=2), optimizer="sgd"), shape=Shape(width=16, layers=2, heads=4, context=10)
    )
    differs = "width 12 instead of 16, optimizer adamw instead of sgd"
    messages = worlds(2).run(_refused, other, tmp_path)
    assert messages == [f"the checkpoint {checkpoint} is of another training: {differs}"] * 2


def _write_apart(plan: TrainingPlan, folder: Path) -> str:
    import torch.distributed as dist

    with pytest.raises(OSError, match=r"is not whole .* expected a folder that all ranks share") as raised:
        _write(plan, folder / f"host{dist.get_rank()}")
    return str(raised.value)


def test_ranks_on_disks_of_their_own_have_no_checkpoint(worlds: Worlds, tmp_path: Path) -> None:
    text, _ = worlds(2).run(_write_apart, plan_of(ParallelLayout(dp=2)), tmp_path)
    assert "__1_0.distcp" in text and not [*tmp_path.glob("host*/step-*")]


@pytest.mark.parametrize("name", ["zero1 x 2", "sharded server x 2", "peers x 2"])
def test_a_checkpoint_of_no_steps_is_resumed(worlds: Worlds, name: str, tmp_path: Path) -> None:
    from ringtree.training import Trainer
    from ringtree.training.core.checkpoint import save

    save(Trainer(plan_of(ParallelLayout())), tmp_path)
    losses, _ = worlds(2).run(_go_on, plan_of(LAYOUTS[name]), tmp_path, 0)[0]
    assert losses == pytest.approx(_go_on(plan_of(ParallelLayout()), tmp_path, 0)[0], abs=TOLERANCE)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(OSError, match=re.escape(str(tmp_path / "taken"))):
        _write(plan_of(ParallelLayout()), tmp_path / "taken")
