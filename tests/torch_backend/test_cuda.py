"""CUDA tensors through the backend, by two processes that share a GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.torch_backend.on_cuda import CHECKS, WAYS, lacking
from tests.torch_backend.on_cuda import world as made
from tests.torch_backend.world import World


@pytest.fixture(scope="module", params=list(WAYS))
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if why := lacking(request.param):
        pytest.skip(why)
    ranks = made(request.param)
    yield ranks
    ranks.close()


@pytest.mark.parametrize("name", list(CHECKS))
def test_cuda_tensors(world: World, name: str) -> None:
    CHECKS[name](world)
