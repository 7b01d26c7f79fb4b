"""Checkpoints (torch.distributed.checkpoint): weights, the optimizer's state and the number of steps, by the names and
in the whole shapes of one process, so that what one layout writes another reads.

A checkpoint is a folder, named step-00000012 after its steps. It has that name only when all of it is there: a job that
ends while it writes leaves nothing that is taken for one. Its training.json has the plan, and the digest of every
other file. Those are torch's, and read as tensors alone: nothing that stands in them is run.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException

from ringtree.files.file_bytes import file_bytes, opened
from ringtree.files.json_values import json_value, shown
from ringtree.training.core.checkpoint_folder import (
    FACTS,
    begin,
    beside,
    claim,
    discard,
    latest,
    leave_token,
    remove_earlier,
    take_name,
)
from ringtree.training.core.checkpoint_reader import TensorReader
from ringtree.training.core.checkpoint_table import COUNT, check_sizes
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.stages import named
from ringtree.training.core.step import holder

if TYPE_CHECKING:
    from ringtree.training.core.trainer import Trainer

__all__ = ["claimed", "latest", "latest_of_all", "load", "save"]

T = TypeVar("T")
MOST_BYTES = 1 << 24
"""The most of training.json."""
LEAST_LEFT = 1 << 20
"""Fewer bytes on a disk are worth a word where a checkpoint cannot be written to it."""
EARLIER: dict[str, Any] = {"kv_heads": None, "ffn_width": None, "gated": False, "tied": False}
"""Parts of a shape that earlier checkpoints do not name: all models had them so."""
CHANGEABLE = ("seed", "batch", "rate")
"""Settings with which a training may go on otherwise than it began."""
FOLLOWS = {"head_width": {"width", "heads"}, "kv_heads": {"heads"}, "ffn_width": {"width"}}
"""Numbers that follow from others, and differ with these."""


def latest_of_all(folder: Path) -> Path | None:
    """The same as rank 0 finds it, on every rank, which each by itself may find another while one is written; all
    ranks call it."""
    return _on_first(lambda: latest(folder))


@contextmanager
def claimed(folder: Path | None) -> Iterator[None]:
    """Keeps other trainings out of a folder of checkpoints, if there is one, while the block runs; all ranks enter it.
    ValueError: if another has it, or a rank's folder is not rank 0's, which would be found when all is trained."""
    held: list[int] = []
    if folder is not None:
        _on_first(lambda: held.append(claim(folder)))
    try:
        if folder is not None and dist.is_initialized() and dist.get_world_size() > 1:
            _check_shared(folder)
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)


def _check_shared(folder: Path) -> None:
    """ValueError on every rank: one does not see the token that rank 0 leaves in the folder for that time."""
    token = _on_first(lambda: leave_token(folder))
    try:
        _jointly(lambda: _see(folder, token))
    finally:
        if token and dist.get_rank() == 0:
            (folder / token).unlink(missing_ok=True)


def _see(folder: Path, token: str) -> None:
    if token and not os.path.lexists(folder / token):
        raise ValueError(
            f"the checkpoints' folder {folder} of rank {dist.get_rank()}, on {platform.node()}, is not that of "
            "rank 0: expected a folder that all ranks share"
        )


def save(trainer: Trainer, folder: Path, keep: int | None = None) -> Path:
    """Writes a checkpoint into a folder that all ranks share, each rank a part of it; all ranks call it. One of as many
    steps is replaced. `keep`: of it and earlier ones, so many stay; None: all. OSError: if it cannot be written, or is
    not all in that folder; earlier ones stay."""
    made = folder / f"step-{trainer.steps_done:08}"
    unfinished = beside(made)

    def end() -> None:
        with _undisturbed(unfinished):
            files = _digests(unfinished)
        try:
            TensorReader(unfinished, files).read_metadata()
        except ValueError as error:  # another rank's file is not here
            raise OSError(
                f"the checkpoint {made} is not whole ({error}): expected a folder that all ranks share"
            ) from None
        facts = {"steps": trainer.steps_done, **trainer.plan.record(), "files": files}
        _write(unfinished / FACTS, json.dumps(facts, indent=1, allow_nan=False))
        take_name(unfinished, made)
        if keep is not None:
            remove_earlier(made, keep, _is_whole)

    trainer.collect()
    try:
        _on_first(lambda: begin(unfinished))
        with _undisturbed(unfinished), _one_line(f"the checkpoint {made} cannot be written"):
            dcp.save(_weights(trainer) | _state(trainer), checkpoint_id=unfinished, no_dist=not dist.is_initialized())
    except OSError as failed:  # on all ranks, when each has ended its part
        left = shutil.disk_usage(folder).free if folder.is_dir() else LEAST_LEFT
        if not dist.is_initialized() or dist.get_rank() == 0:
            discard(unfinished)  # it may have all the room that the next one needs
        if left >= LEAST_LEFT:
            raise
        raise OSError(f"{failed}; {left:,} bytes were left on the disk") from None
    finally:
        trainer.let_go()
    _on_first(end)
    return made


def load(trainer: Trainer, checkpoint: Path) -> list[str]:
    """Loads a checkpoint of any layout into a trainer; all ranks call it. Returns in words the settings that differ
    from those of its training, which goes on by other rows or another rate. ValueError, with the difference: if the
    checkpoint is not whole, or another model's or optimizer's."""
    facts = _on_first(lambda: _checked(checkpoint, trainer.plan))
    reader = TensorReader(checkpoint, facts.files)
    state = holder(trainer.optimizer).state
    for name, kinds in _jointly(lambda: _kinds(reader, trainer, checkpoint)).items():
        parameter = _changed(trainer).get(name)
        if parameter is not None:
            # A state is as its parameter, divided as that is, or a number.
            state[parameter] = {
                kind: torch.zeros(()) if kind == COUNT else torch.zeros_like(parameter) for kind in kinds
            }
    with _one_line(f"the checkpoint {checkpoint} cannot be read"):
        dcp.load(
            _weights(trainer) | _state(trainer),
            storage_reader=reader,
            no_dist=not dist.is_initialized(),
        )
    trainer.hand_out()
    trainer.steps_done = facts.steps
    was, settings = facts.settings, trainer.plan.record()["settings"]
    return [f"{k} {settings[k]} instead of {shown(was[k])}" for k in CHANGEABLE if k in was and was[k] != settings[k]]


def _weights(trainer: Trainer) -> dict[str, Tensor]:
    """This rank's part of the model. Parameters that several ranks have are written by one of them."""
    return {f"weights/{name}": value.detach() for name, value in named(trainer.model).items()}


def _state(trainer: Trainer) -> dict[str, Tensor]:
    """This rank's part of the optimizer's state."""
    state = holder(trainer.optimizer).state
    its = {name: state[parameter] for name, parameter in _changed(trainer).items() if parameter in state}
    return {f"optimizer/{n}/{k}": v for n, kinds in its.items() for k, v in kinds.items() if isinstance(v, Tensor)}


def _changed(trainer: Trainer) -> dict[str, Tensor]:
    """The parameters that this rank's optimizer changes, by their names."""
    its = {id(p) for group in holder(trainer.optimizer).param_groups for p in group["params"]}
    return {name: value for name, value in named(trainer.model).items() if id(value) in its}


def _kinds(reader: TensorReader, trainer: Trainer, checkpoint: Path) -> dict[str, tuple[str, ...]]:
    """The kinds of the optimizer's states that a checkpoint has, by the parameter's name. ValueError: if they, or its
    weights, are not those of this rank's part of the trainer."""
    sizes = {key: entry.size for key, entry in reader.read_metadata().state_dict_metadata.items()}
    weights, changed = (
        {name: value.shape for name, value in of.items()} for of in (named(trainer.model), _changed(trainer))
    )
    try:
        return check_sizes(sizes, weights, changed, trainer.plan.settings.optimizer)
    except ValueError as error:
        raise ValueError(f"the checkpoint {checkpoint} is broken: {error}") from None


class _Facts(NamedTuple):
    """The content of a checkpoint's training.json. `files`: the digests of all others, by their names."""

    steps: int
    shape: dict[str, Any]
    settings: dict[str, Any]
    files: dict[str, str]


def _facts(checkpoint: Path) -> _Facts:
    """The facts, each of its type. ValueError where they cannot be read."""
    try:
        given = json_value(file_bytes(checkpoint / FACTS, "its facts", MOST_BYTES), FACTS, "its facts")
        if not isinstance(given, dict):
            raise ValueError(f"got {shown(given)}; expected an object")
        for name in ("files", "shape", "settings"):
            if not isinstance(given.get(name), dict):
                raise ValueError(f"{name}: got {shown(given.get(name))}; expected an object")
        for name, digest in given["files"].items():
            if Path(name).name != name or name == FACTS or not isinstance(digest, str):
                raise ValueError(f"files: got {shown(name)}: {shown(digest)}; expected a file's name and its digest")
        steps = given.get("steps")
        if not isinstance(steps, int) or isinstance(steps, bool) or not 0 <= steps < 1 << 53:
            raise ValueError(f"steps: got {shown(steps)}; expected a whole number, at least 0")
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{checkpoint} is no finished checkpoint: its {FACTS} cannot be read ({error}); without its folder, an "
            "earlier one is taken"
        ) from None
    return _Facts(steps, given["shape"], given["settings"], given["files"])


def _is_whole(checkpoint: Path) -> bool:
    """Whether a folder has what a checkpoint has under its name, and nothing else."""
    try:
        facts = _facts(checkpoint)
        files = {file.name for file in checkpoint.iterdir()}
    except (OSError, ValueError):
        return False
    return files == {FACTS, *facts.files} and checkpoint.name == f"step-{facts.steps:08}"


def _checked(checkpoint: Path, plan: TrainingPlan) -> _Facts:
    """The facts of a checkpoint that is whole, and one of what the plan trains. Files that they do not name, nobody
    reads."""
    facts = _facts(checkpoint)
    for name, digest in sorted(facts.files.items()):
        there = os.path.lexists(checkpoint / name)
        if not there or _digest(checkpoint / name) != digest:
            how = "is not as it was written" if there else "is missing"
            raise ValueError(
                f"the checkpoint {checkpoint} is broken: {name} {how}; without its folder, an earlier one is taken"
            )
    shape = plan.shape.record()
    before = replace(plan.shape, **EARLIER).record()
    before["head_width"] = plan.shape.width // plan.shape.heads
    was = {name: before[name] for name in (*EARLIER, "head_width")} | facts.shape
    unlike = [k for k in shape if was.get(k) != shape[k]]
    its = [k for k in unlike if FOLLOWS.get(k, set()).isdisjoint(unlike)]
    differs = [f"{k} {shown(was.get(k))} instead of {shape[k]}" for k in its]
    if (was_by := facts.settings.get("optimizer")) != plan.settings.optimizer:
        optimizer = was_by if isinstance(was_by, str) else shown(was_by)
        differs.append(f"optimizer {optimizer[:40]} instead of {plan.settings.optimizer}")
    if differs:
        raise ValueError(f"the checkpoint {checkpoint} is of another training: {', '.join(differs)}")
    return facts


def _digests(folder: Path) -> dict[str, str]:
    return {file.name: _digest(file) for file in sorted(folder.iterdir()) if file.name != FACTS}


def _digest(file: Path) -> str:
    digest = blake2b(digest_size=16)
    with opened(file, "a file of a checkpoint") as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _write(file: Path, text: str) -> None:
    with file.open("w", encoding="utf-8") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())


def _on_first(work: Callable[[], T]) -> T:
    """Rank 0's result, or its error, on every rank."""
    outcome: list[Any] = [None, None]
    if not dist.is_initialized() or dist.get_rank() == 0:
        try:
            outcome[0] = work()
        except (OSError, ValueError) as error:
            outcome[1] = error
    if dist.is_initialized():
        dist.broadcast_object_list(outcome)
    if outcome[1] is not None:
        raise outcome[1]
    return outcome[0]  # type: ignore[no-any-return]


def _jointly(work: Callable[[], T]) -> T:
    """This rank's result; on every rank the error of the first that met one."""
    errors: list[Exception | None] = [None]
    result = None
    try:
        result = work()
    except (OSError, ValueError) as error:
        errors = [error]
    if dist.is_initialized():
        mine, errors = errors[0], [None] * dist.get_world_size()
        dist.all_gather_object(errors, mine)
    for theirs in errors:
        if theirs is not None:
            raise theirs
    return result  # type: ignore[return-value]


@contextmanager
def _undisturbed(unfinished: Path) -> Iterator[None]:
    """States the cause of an error where the folder that is written in is gone."""
    try:
        yield
    except OSError:
        if unfinished.exists():
            raise
        raise OSError(
            f"{unfinished} was removed while it was written, as by another training with that folder; expected a "
            "folder for each"
        ) from None


@contextmanager
def _one_line(what: str) -> Iterator[None]:
    """Raises torch's error, which holds every rank's, as an OSError of one line; no warning about a single process."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")
            yield
    except CheckpointException as failed:
        rank, (error, _) = min(failed.failures.items())
        raise OSError(f"{what}: rank {rank}: {str(error) or type(error).__name__}") from None
