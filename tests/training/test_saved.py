"""The predicted activations of a rank are those that torch keeps in a training."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean
from typing import Any

import pytest

from ringtree.training import ParallelLayout, Shape, TrainingPlan, TrainingSettings
from ringtree.training.core.saved import again_nbytes, block_nbytes, kept_nbytes, most_saved_nbytes
from tests.torch_backend.conftest import Worlds
from tests.training.table import plan

NAMES = ["dp2", "tp2", "sp2", "cp2 ring", "cp2 ulysses", "dp2 micro-batches", "tp2 micro-batches"]
NAMES += ["tp2 own shape", "cp2 ring own shape", "cp2 ulysses own shape", "zero0 dp2 tied"]
RECOMPUTED = ["tp2 recompute", "sp2 recompute own shape", "cp2 ring recompute", "cp2 ulysses recompute own shape"]
RECOMPUTED += ["pp2 naive recompute", "pp2 gpipe recompute", "pp2 interleaved recompute"]
PIPELINES = ["pp2 naive", "pp2 gpipe", "pp2 1f1b", "pp2 interleaved"]


class Kept:
    """What a step keeps for its backward pass, by storage, and the most bytes of it at once."""

    def __init__(self, parameters: set[int]) -> None:
        self._parameters, self._uses, self._nbytes = parameters, dict[int, int](), dict[int, int]()
        self.most_nbytes = 0

    def pack(self, x: Any) -> Any:
        """What autograd keeps in place of `x`, which counts for as long as it is kept."""
        from torch.distributed.tensor import DTensor

        storage = (x.to_local() if isinstance(x, DTensor) else x).untyped_storage()
        return Use(self, x, None if storage.data_ptr() in self._parameters else storage)

    def count(self, at: int, nbytes: int, uses: int) -> None:
        """Counts `uses` more of the storage there."""
        self._uses[at] = self._uses.get(at, 0) + uses
        self._nbytes[at] = nbytes
        if not self._uses[at]:
            del self._uses[at], self._nbytes[at]
        self.most_nbytes = max(self.most_nbytes, sum(self._nbytes.values()))


class Use:
    """One use of a storage, which ends with this object."""

    def __init__(self, kept: Kept, x: Any, storage: Any) -> None:
        self.x, self._kept, self._storage = x, kept, storage
        if storage is not None:
            kept.count(storage.data_ptr(), storage.nbytes(), 1)

    def __del__(self) -> None:
        if self._storage is not None:
            self._kept.count(self._storage.data_ptr(), self._storage.nbytes(), -1)


def _kept(its: TrainingPlan) -> int:
    """The most that this rank's second step keeps at once."""
    import torch
    from torch.distributed.tensor import DTensor

    from ringtree.training import Trainer

    trainer = Trainer(its)
    trainer.step()
    local = (p.to_local() if isinstance(p, DTensor) else p for p in trainer.model.parameters())
    kept = Kept({p.untyped_storage().data_ptr() for p in local})
    with torch.autograd.graph.saved_tensors_hooks(kept.pack, lambda use: use.x):
        trainer.step()
    trainer.close()
    return kept.most_nbytes


@pytest.mark.torch
@pytest.mark.parametrize("name", NAMES + PIPELINES + RECOMPUTED)
def test_they_are_what_torch_keeps(worlds: Worlds, name: str) -> None:
    its = plan(name)
    kept, found = max(worlds(its.layout.ranks).run(_kept, its)), [kept_nbytes(its, at) for at in range(its.layout.pp)]
    assert max(found) == pytest.approx(kept, rel=0.025)  # the text's own bytes, and norms of a few
    assert its.layout.recompute or max(found) == most_saved_nbytes(its)


@pytest.mark.parametrize("name", RECOMPUTED)
def test_a_block_that_is_computed_again_has_what_it_had_without(name: str) -> None:
    """Of a long pipeline's first stage, say: of each of its blocks the input, and of one of them all."""
    its = plan(name)
    once = replace(its, layout=replace(its.layout, recompute=False))
    assert all(again_nbytes(once, at) == 0 for at in range(its.layout.pp))
    assert block_nbytes(its) - block_nbytes(its) // 8 <= again_nbytes(replace(its, layout=replace(its.layout, pp=2)), 0)
    assert most_saved_nbytes(its) < most_saved_nbytes(once)


def test_a_block_keeps_sixteen_vectors_of_a_token() -> None:
    """In two bytes 32 of each element, beside four bytes for each statistic of norms and attention."""
    its = TrainingPlan(shape=Shape(width=4096, heads=32, layers=2), dtype="bfloat16")
    tokens = its.settings.batch * its.shape.context
    assert block_nbytes(its) == tokens * (32 * 4096 + 4 * (4 + 32))


@pytest.mark.parametrize("micro_batches", [4, 8])
def test_early_stages_of_a_pipeline_keep_most(micro_batches: int) -> None:
    """One forward, one backward: as many micro-batches as the stage has behind it, and one; gpipe: all of them."""
    shape, settings = Shape(layers=4), TrainingSettings(batch=16)
    its = TrainingPlan(ParallelLayout(pp=4, micro_batches=micro_batches), shape, settings)
    assert most_saved_nbytes(its) == 4 * block_nbytes(its)
    gpipe = replace(its, layout=replace(its.layout, schedule="gpipe"))
    assert most_saved_nbytes(gpipe) > micro_batches * block_nbytes(its)  # the last stage has the scores, too


@pytest.mark.parametrize("more", [{}, {"top_k": 1}, {"gated": True, "ffn_width": 20}])
@pytest.mark.parametrize("layout", [ParallelLayout(dp=2), ParallelLayout(ep=2), ParallelLayout(ep=2, recompute=True)])
def test_experts_keep_what_an_even_choice_brings(worlds: Worlds, layout: ParallelLayout, more: dict[str, Any]) -> None:
    """The mean of ranks, for tokens choose unevenly; of an expert that has room for all."""
    shape = Shape(width=32, layers=2, heads=4, context=16, experts=4, capacity_factor=4.0, **more)
    its = TrainingPlan(layout, shape, TrainingSettings(batch=8))
    assert fmean(worlds(2).run(_kept, its)) == pytest.approx(kept_nbytes(its, 0), rel=0.025)


def test_asynchronous_training_is_refused() -> None:
    with pytest.raises(ValueError, match="activations are predicted of synchronous training"):
        most_saved_nbytes(TrainingPlan(ParallelLayout(dp=2, staleness=1)))
