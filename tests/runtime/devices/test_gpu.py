"""The engine `cuda` on a GPU that all ranks share: the same bits as on the host, in order with streams, and a death."""

from __future__ import annotations

import ctypes
import importlib.util
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ringtree.algorithms import serving
from ringtree.errors import RankFailed
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.launch.spawn import spawn
from tests.runtime.devices import on_gpu

RANKS = (2, 4, 8)


def lacking() -> str:
    """Why there is no GPU here; "" where there is."""
    if importlib.util.find_spec("torch") is None:
        return "no torch"
    try:
        ctypes.CDLL("libcuda.so.1")  # initialized by the ranks alone, which are forked
    except OSError as error:
        return f"no GPU: {error}"
    return "" if importlib.util.find_spec("cuda") else "no cuda-bindings"


pytestmark = [pytest.mark.skipif(bool(lacking()), reason=lacking()), pytest.mark.timeout(120)]


@pytest.fixture(params=["kernel", "stream"], autouse=True)
def waits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Kernels wait for peers, as where the Multi-Process Service runs, or streams do."""
    monkeypatch.setenv("RINGTREE_DEVICE_WAITS", str(request.param))
    yield str(request.param)


@pytest.mark.parametrize("ranks", RANKS)
def test_every_algorithm_gives_the_bits_of_the_host(ranks: int) -> None:
    collectives = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all", "scan")
    calls = [
        (collective, "float32", "sum" if collective in ("all_reduce", "reduce_scatter", "reduce", "scan") else "", n, a)
        for collective in collectives
        for a in serving(collective)
        for n in (ranks, 100_003 * ranks)
    ]
    assert not [line for lines in spawn(on_gpu.compare, ranks, calls, timeout_s=60) for line in lines]


@pytest.mark.parametrize("collective", ["all_reduce", "reduce_scatter"])
def test_every_type_and_reduction_gives_the_bits_of_the_host(collective: str) -> None:
    calls = on_gpu.every_type(collective, 2)
    on_gpu.compile_ahead(calls)
    assert not [line for lines in spawn(on_gpu.compare, 2, calls, timeout_s=60) for line in lines]


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("count", [1, 1000, 1 << 22])
def test_symmetric_memory_is_reduced_where_it_lies(ranks: int, count: int) -> None:
    assert not [line for lines in spawn(on_gpu.in_symmetric_memory, ranks, count, timeout_s=60) for line in lines]


def test_calls_are_in_order_with_the_callers_streams() -> None:
    assert not [line for lines in spawn(on_gpu.on_streams, 2, 1 << 20, timeout_s=60) for line in lines]


@pytest.mark.parametrize("ranks", RANKS)
def test_calls_that_no_rank_waits_for_keep_apart(ranks: int) -> None:
    assert not [line for lines in spawn(on_gpu.mixed, ranks, 7 * ranks, 60, timeout_s=60) for line in lines]


@pytest.mark.parametrize("number", [(1 << 31) - 20, (1 << 32) - 20])
def test_numbers_of_messages_wrap(number: int) -> None:
    found = spawn(on_gpu.from_number, 2, number, number - (1 << 30), timeout_s=60)
    assert not [line for lines in found for line in lines]


@pytest.mark.parametrize(("module", "act"), [("cupy", on_gpu.with_cupy), ("jax", on_gpu.with_jax)])
def test_arrays_of_other_libraries(module: str, act: Callable[[Communicator], list[str]]) -> None:
    pytest.importorskip(module)
    assert not [line for lines in spawn(act, 2, timeout_s=60) for line in lines]


def test_messages_pass_through_the_hosts_memory_where_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RINGTREE_DEVICE_STAGING", "host")
    calls = [("all_reduce", "float32", "sum", n, None) for n in (2, 1 << 20)]
    assert not [line for lines in spawn(on_gpu.compare, 2, calls, timeout_s=60) for line in lines]


def test_survivors_name_the_dead_and_the_device_works_on(tmp_path: Path) -> None:
    with pytest.raises(RankFailed):
        spawn(on_gpu.after_a_death, 3, str(tmp_path), timeout_s=30)
    for rank in (0, 1):
        error, waited_s, total = json.loads((tmp_path / str(rank)).read_text())
        assert "rank 2" in error and waited_s < 2.5 and total == 1000, (error, waited_s, total)
