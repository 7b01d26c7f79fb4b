"""A checkpoint whose table of contents is not all that its trainer has is refused, whoever wrote its digests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ringtree.training import ParallelLayout
from tests.torch_backend.conftest import Worlds
from tests.training.test_checkpoint import _go_on, _rewritten, checkpoint, plan_of, written

__all__ = ["checkpoint", "written"]

WEIGHT, STATE = "weights/embedding.bytes.weight", "optimizer/embedding.bytes.weight/exp_avg"


def _size(*lengths: Any) -> Any:
    import torch

    return torch.Size(lengths)


def _half(entry: Any) -> None:
    """Its part is there twice, and half as long: of as many elements."""
    (part,) = entry.chunks
    part.sizes = _size(part.sizes[0] // 2, *part.sizes[1:])
    entry.chunks = [part, part]


def _turn(entry: Any) -> None:
    (part,) = entry.chunks
    entry.size = part.sizes = _size(*reversed(entry.size))


BROKEN = {
    "no part": (lambda table: table[WEIGHT].chunks.clear(), f"'{WEIGHT}' has 0 parts that do not make up its shape"),
    "half of it twice": (lambda table: _half(table[WEIGHT]), f"'{WEIGHT}' has 2 parts that do not make up its shape"),
    "no weight": (lambda table: table.pop(WEIGHT), f"'{WEIGHT}' is missing; expected the shape"),
    "no state": (
        lambda table: table.pop(STATE),
        "the state of 'embedding.bytes.weight' is exp_avg_sq, step; expected all of exp_avg, exp_avg_sq, step, or none",
    ),
    "no kind": (lambda table: table.update({"optimizer/x": table[STATE]}), "has the name 'optimizer/x'; expected"),
    "a number": (lambda table: table.update({3: table[STATE]}), "has the name 3; expected weights/NAME"),
    "huge": (lambda table: setattr(table[STATE], "size", _size(1 << 40)), f"'{STATE}' has 1 parts that do not make"),
    "below 0": (
        lambda table: setattr(table[STATE], "size", _size(-1)),
        f"'{STATE}' has the shape .*; expected len",
    ),
    "a text": (lambda table: setattr(table[STATE], "size", "abc"), f"'{STATE}' has the shape 'abc'; expected lengths"),
    "turned": (
        lambda table: _turn(table[STATE]),
        rf"'{STATE}' has the shape \[12, 256\]; expected the shape \[256, 12\]",
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_table_that_is_not_all_of_the_training_is_refused(checkpoint: Path, tmp_path: Path, how: str) -> None:
    change, expected = BROKEN[how]

    def changed(metadata: Any) -> Any:
        change(metadata.state_dict_metadata)
        return metadata

    _rewritten(checkpoint, changed)
    with pytest.raises(ValueError, match=expected) as refused:
        _go_on(plan_of(ParallelLayout()), tmp_path)
    assert "\n" not in str(refused.value) and str(checkpoint) in str(refused.value)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda places: places.clear(), "has a part that is in no file; expected all there"),
        (lambda places: setattr(next(iter(places.values())), "offset", -5), "bytes at -5; expected a place in a file"),
    ],
    ids=["in no file", "below 0"],
)
def test_a_part_that_is_nowhere_is_refused(checkpoint: Path, tmp_path: Path, change: Any, expected: str) -> None:
    def changed(metadata: Any) -> Any:
        change(metadata.storage_data)
        return metadata

    _rewritten(checkpoint, changed)
    with pytest.raises(ValueError, match=expected):
        _go_on(plan_of(ParallelLayout()), tmp_path)


def test_a_table_with_a_name_that_is_no_text_is_named(checkpoint: Path) -> None:
    from ringtree.training.core.checkpoint_reader import TensorReader

    (checkpoint / ".metadata").write_bytes(b"\x80\x04X\x01\x00\x00\x00\xff.")
    with pytest.raises(ValueError, match=f"{checkpoint}/.metadata: 'utf-8' codec can't decode"):
        TensorReader(checkpoint, []).read_metadata()


def _refusals(folder: Path) -> str:
    """The error of a rank of a pipeline; the group goes on."""
    from ringtree.training import Trainer
    from ringtree.training.core.checkpoint import latest, load

    trainer, found = Trainer(plan_of(ParallelLayout(pp=2, micro_batches=2))), latest(folder)
    assert found is not None
    with pytest.raises(ValueError, match="is missing") as refused:
        load(trainer, found)
    trainer.mean_loss(trainer.step())
    trainer.close()
    return str(refused.value)


def test_what_one_rank_lacks_is_every_ranks_error(worlds: Worlds, checkpoint: Path, tmp_path: Path) -> None:
    """The first stage of a pipeline has the embedding; the other hears of it."""

    def changed(metadata: Any) -> Any:
        metadata.state_dict_metadata.pop(WEIGHT)
        return metadata

    _rewritten(checkpoint, changed)
    first, second = worlds(2).run(_refusals, tmp_path)
    assert first == second and WEIGHT in first


def test_parts_cover_a_tensor_where_each_element_is_in_one() -> None:
    from ringtree.training.core.checkpoint_table import _cover

    quarters = [((a, b), (2, 3)) for a in (0, 2) for b in (0, 3)]
    assert _cover(quarters, (4, 6)) and _cover([((), ())], ()) and _cover([], (0, 4))
    assert _cover([((0, 0), (4, 6)), ((4, 0), (0, 6))], (4, 6)), "a rank may have nothing of it"
    assert not _cover(quarters[:3], (4, 6)) and not _cover([*quarters[:3], quarters[0]], (4, 6))
    assert not _cover([], ()) and not _cover([((0,), (4,))], (4, 6)) and not _cover([((-1,), (4,))], (4,))
