"""Every layout comes to what one process comes to, and without communication to something else; and its bytes are
those of its formula."""

from __future__ import annotations

from typing import Any

import pytest

from tests.torch_backend.conftest import Worlds
from tests.training.table import LAYOUTS, plan

TOLERANCE = 1e-4
"""Of losses and weights, absolute and relative."""
UNLIKE = 10 * TOLERANCE


def _train(name: str, silent: bool) -> tuple[list[float], dict[str, Any], list[int], list[dict[str, int]]]:
    """On a rank: its losses, the whole model's weights, and of each step what it received and what layers counted."""
    from contextlib import nullcontext

    import torch.distributed as dist

    from ringtree.training import Trainer
    from ringtree.training.state import named
    from ringtree.training.wire import received_nbytes
    from tests.training.silence import silence

    idle = received_nbytes()
    dist.barrier()
    barrier_nbytes = received_nbytes() - idle
    trainer = Trainer(plan(name))
    losses, received, counted = [], [], []
    for _ in range(trainer.plan.settings.steps):
        before, so_far = received_nbytes(), trainer.counted()
        dist.barrier()  # no other's step begins before that was read
        with silence() if silent else nullcontext():
            loss = trainer.step()
        if not silent:
            trainer.settle()
        received.append(received_nbytes() - before - barrier_nbytes)
        counted.append({what: nbytes - so_far[what] for what, nbytes in trainer.counted().items()})
        losses.append(trainer.mean_loss(loss))
    unsettled = silent and trainer.plan.layout.staleness is not None  # and what was not sent does not come
    weights = named(trainer.model) if unsettled else trainer.weights()
    if not unsettled:
        trainer.close()
    return losses, {name: value.detach().numpy() for name, value in weights.items()}, received, counted


_said: dict[str, list[Any]] = {}


def _trained(worlds: Worlds, name: str) -> list[Any]:
    """What every rank says of a layout, which trains once for all tests of it."""
    if name not in _said:
        _said[name] = worlds(plan(name).layout.ranks).run(_train, name, False)
    return _said[name]


def _apart(got: dict[str, Any], expected: dict[str, Any]) -> float:
    """How far the two are at most, in tolerances' units: |a - b| / (1 + |b|)."""
    import numpy as np

    assert got.keys() == expected.keys()
    return max(float(np.max(np.abs(got[k] - expected[k]) / (1 + np.abs(expected[k])))) for k in expected)


@pytest.mark.parametrize("name", LAYOUTS)
def test_as_one_process(worlds: Worlds, name: str) -> None:
    from tests.training.reference import alone

    losses, weights = alone(plan(name))
    expected = {name: value.numpy() for name, value in weights.items()}
    for its_losses, its_weights, *_ in _trained(worlds, name):
        assert its_losses == pytest.approx(losses, abs=TOLERANCE, rel=TOLERANCE)
        assert _apart(its_weights, expected) < TOLERANCE


@pytest.mark.parametrize("name", LAYOUTS)
def test_without_communication_it_is_noticed(worlds: Worlds, name: str) -> None:
    from tests.training.reference import alone

    expected = {name: value.numpy() for name, value in alone(plan(name))[1].items()}
    world = worlds(plan(name).layout.ranks)
    assert any(not _apart(weights, expected) < UNLIKE for _, weights, *_ in world.run(_train, name, True))


@pytest.mark.parametrize("name", LAYOUTS)
def test_bytes_are_those_of_the_formula(worlds: Worlds, name: str) -> None:
    from ringtree.training.registry import traffic
    from ringtree.training.traffic import known

    bounds = traffic(plan(name))
    said = _trained(worlds, name)
    received = [its[-1] for _, _, its, _ in said]
    counted = {t.what: sum(its[-1][t.what] for *_, its in said) for t in bounds if t.at_most}
    assert all(0 < counted[t.what] <= t.nbytes for t in bounds if t.at_most)
    assert sum(received) == sum(t.wire_nbytes for t in known(bounds, counted))
