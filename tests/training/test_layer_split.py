"""A module that is cut into parts comes, on ranks of their own, to what it comes to whole: whatever its graph is, and
wherever it is cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import EXAMPLES
from tests.torch_backend.conftest import Worlds

SKIPS = [("layer", 0, 0), ("layer", 1, 1), ("add", 2, 1), ("add", 3, 0), ("scale", 4, 1), ("add", 5, 2)]
"""Values that cross several cuts, and are used in several parts."""


def _apart(spec: Any, cuts: list[int], silent: bool = False) -> tuple[Any, dict[str, Any]]:
    """On a rank: the output's difference from that of the whole module, on the last one, and, of the parameters in this
    rank's part, that of the gradients."""
    from contextlib import nullcontext

    import torch
    import torch.distributed as dist

    from ringtree.training.strategies.layers.cut_pass import split
    from ringtree.training.strategies.layers.layer_split_step import through
    from ringtree.training.strategies.layers.send_receive import StageLink
    from tests.training.graphs import WIDTH, Dag
    from tests.training.silence import silence

    x = torch.linspace(-1, 1, 4 * WIDTH).view(4, WIDTH)
    whole, module = Dag(spec), Dag(spec)
    expected = whole(x)
    if expected.requires_grad:
        expected.square().sum().backward()
    me, last = dist.get_rank(), len(cuts)
    part = split(module, [f"steps.{k}" for k in cuts], [x])[me]
    outputs: list[torch.Tensor] = []

    def loss(output: torch.Tensor) -> torch.Tensor:
        outputs.append(output.detach())
        return output.square().sum()

    with silence() if silent else nullcontext():
        through(part, StageLink(), [x] if me == 0 else [], loss if me == last else None)
    theirs = dict(whole.named_parameters())
    zero = torch.zeros(())
    apart = {
        name: float((zero if mine.grad is None else mine.grad).sub(zero if its is None else its).abs().max())
        for name, mine in part.named_parameters()
        for its in [theirs[name].grad]
    }
    return float((outputs[0] - expected).abs().max()) if outputs else None, apart


@st.composite
def _graphs(draw: st.DrawFn, parts: int) -> tuple[Any, list[int]]:
    kinds = st.sampled_from(["layer", "add", "scale", "size", "no gradient", "unused"])
    steps = draw(st.integers(parts, 10))
    spec = [(draw(kinds), draw(st.integers(0, k)), draw(st.integers(0, k))) for k in range(steps)]
    return spec, sorted(draw(st.lists(st.integers(0, steps - 1), min_size=parts - 1, max_size=parts - 1, unique=True)))


@pytest.mark.parametrize("n", [2, 4])
def test_any_split_graph_computes_the_whole_graphs_result(worlds: Worlds, n: int) -> None:
    @settings(max_examples=max(8, EXAMPLES // 3), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(_graphs(n))
    def holds(graph: tuple[Any, list[int]]) -> None:
        results = worlds(n).run(_apart, *graph)
        assert results[-1][0] == pytest.approx(0, abs=1e-5)
        of_gradients = {name: apart for _, mine in results for name, apart in mine.items()}
        assert len(of_gradients) == sum(len(mine) for _, mine in results)
        assert of_gradients == pytest.approx(dict.fromkeys(of_gradients, 0.0), abs=1e-4)

    holds()


def test_skips_over_several_cuts(worlds: Worlds) -> None:
    results = worlds(4).run(_apart, SKIPS, [1, 3, 4])
    assert all(apart < 1e-5 for _, mine in results for apart in mine.values())
    assert {name for _, mine in results for name in mine} >= {
        "steps.0.layer.weight",
        "steps.1.layer.bias",
        "steps.4.scale",
    }


def _complex() -> float:
    """On one of two ranks: how large the gradient is that the first part has of a complex value in the second."""
    import torch
    import torch.distributed as dist
    from torch import Tensor, nn

    from ringtree.training.strategies.layers.cut_pass import split
    from ringtree.training.strategies.layers.layer_split_step import through
    from ringtree.training.strategies.layers.send_receive import StageLink

    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(4))

        def forward(self, x: Tensor) -> Tensor:
            return torch.view_as_real(torch.fft.fft(x * self.scale))

    me, x = dist.get_rank(), torch.ones(4)
    part = split(Turned(), ["view_as_real"], [x])[me]
    through(part, StageLink(), [] if me else [x], torch.sum if me else None)
    return float(part.scale.grad.sum()) if me == 0 else 0.0


def test_a_complex_value_crosses(worlds: Worlds) -> None:
    assert worlds(2).run(_complex) == [4.0, 0.0]


def test_missing_messages_are_noticed(worlds: Worlds) -> None:
    results = worlds(4).run(_apart, SKIPS, [1, 3, 4], True)
    assert not results[-1][0] < 1e-2
    assert any(not apart < 1e-2 for _, mine in results[:-1] for apart in mine.values())


def test_the_graphs_list_every_message() -> None:
    import torch

    from ringtree.training.strategies.layers.cut_pass import split
    from tests.training.graphs import WIDTH, Dag

    first, second, third = (part.code for part in split(Dag(SKIPS), ["steps.2", "steps.5"], [torch.ones(4, WIDTH)]))
    assert "send(steps_0_layer, to = 1, tag = 1)" in first
    assert "send(x, to = 1, tag = 0)" in first
    assert "receive(source = 0, tag = 1, shape = (4, 6), dtype = torch.float32, with_gradient = True)" in second
    assert "receive(source = 0, tag = 0, shape = (4, 6), dtype = torch.float32, with_gradient = False)" in second
    assert "to = 2" in first
    assert "to = " not in third


@pytest.mark.parametrize(
    "cuts, expected",
    [
        (
            ["steps.9"],
            "no cut at 'steps.9': expected the names of nodes or modules in the graph's order: x, ",
        ),
        (["steps.3", "steps.1"], "no cut at 'steps.1'"),
        (["steps.1", "steps.1"], "no cut at 'steps.1'"),
    ],
)
def test_cuts_that_are_not_there(cuts: list[str], expected: str) -> None:
    import torch

    from ringtree.training.strategies.layers.cut_pass import split
    from tests.training.graphs import WIDTH, Dag

    with pytest.raises(ValueError, match=expected):
        split(Dag(SKIPS), cuts, [torch.ones(4, WIDTH)])


@pytest.mark.parametrize(
    "kind, expected",
    [
        ("twice", "weight of a in part 1 is that of a in part 0; cut where a parameter's uses are in one part"),
        ("tied", "a.weight in part 1 is that of a in part 0; cut where a parameter's uses are in one part"),
        ("no gradient", "b is made where gradients are switched off or on, which a graph does not record; expected "),
        ("in place", "add_ changes a in place, which is another part's: cut elsewhere"),
        ("through a view", "mul_ changes a in place, which is another part's: cut elsewhere"),
        ("into out", "mul changes a in place, which is another part's: cut elsewhere"),
        ("by position", "relu changes a in place, which is another part's: cut elsewhere"),
        ("several", "chunk, a tuple, would be cut off from its uses; only tensors are sent: cut elsewhere"),
    ],
)
def test_graphs_that_cannot_be_cut(kind: str, expected: str) -> None:
    import torch
    from torch import Tensor, nn

    from ringtree.training.strategies.layers.cut_pass import split

    class Cut(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            x = self.a(x)
            if kind == "twice":
                return self.a(self.b(x))
            if kind == "tied":
                return nn.functional.linear(self.b(x), self.a.weight)
            if kind == "no gradient":
                with torch.no_grad():
                    return self.b(x)
            if kind == "in place":
                return self.b(torch.ones(4)) + x.add_(1)
            if kind == "through a view":
                return self.b(torch.ones(4)) + x.view(-1).mul_(2).view(2, 4)
            if kind == "into out":
                return self.b(torch.ones(4)) + torch.mul(x.detach(), 2, out=x.detach())
            if kind == "by position":
                return self.b(torch.ones(4)) + nn.functional.relu(x, True)
            one, other = x.chunk(2, dim=-1)
            return one + other

    with pytest.raises(ValueError, match=expected):
        split(Cut(), ["getitem" if kind == "several" else "b"], [torch.ones(2, 4)])
