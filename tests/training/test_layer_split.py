"""A module that is cut into parts comes, on ranks of their own, to what it comes to whole: whatever its graph is, and
wherever it is cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import EXAMPLES
from tests.torch_backend.conftest import Worlds
from tests.torch_backend.world import RankError

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


FIRST, INPUT = "first", "input"
STEPS: dict[str, tuple[set[str], list[set[str]]]] = {
    "frozen once": ({FIRST}, [set(), {FIRST}, {FIRST}]),
    "frozen later": ({FIRST}, [{FIRST}, set(), set()]),
    "frozen by turns": ({FIRST, INPUT}, [{FIRST}, {INPUT}, {FIRST, INPUT}, set()]),
    "frozen all along": (set(), [set(), set()]),
}
"""What requires gradients at split(), and in each step after it."""


class _Skip:
    """Two layers and a skip over both; what requires gradients is set in each step."""

    def __init__(self) -> None:
        import torch
        from torch import Tensor, nn

        class Skip(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

            def forward(self, x: Tensor) -> Tensor:
                return self.second(torch.relu(self.first(x))) + x

        torch.manual_seed(0)
        self.module, self.x = Skip(), torch.randn(3, 4)

    def require(self, trainable: set[str]) -> None:
        self.module.first.requires_grad_(FIRST in trainable)
        self.x = self.x.detach().requires_grad_(INPUT in trainable)
        self.module.zero_grad()

    def gradients(self) -> list[Any]:
        return [self.x.grad, *(p.grad for p in self.module.parameters())]


def _steps(at_split: set[str], steps: list[set[str]]) -> list[bool]:
    """On one of two ranks: whether each step's gradients here are those of the whole module."""
    import torch
    import torch.distributed as dist

    from ringtree.training.strategies.layers.cut_pass import split
    from ringtree.training.strategies.layers.layer_split_step import through
    from ringtree.training.strategies.layers.send_receive import StageLink

    me, wire, mine, whole = dist.get_rank(), StageLink(), _Skip(), _Skip()
    mine.require(at_split)
    part = split(mine.module, ["second"], [mine.x])[me]
    right = []
    for number, trainable in enumerate(steps, 1):
        mine.require(trainable)
        whole.require(trainable)
        (number * whole.module(whole.x).sum()).backward()
        through(part, wire, [] if me else [mine.x], (lambda out, n=number: n * out.sum()) if me else None)
        both = list(zip(mine.gradients(), whole.gradients(), strict=True))
        here = both[3:] if me else both[:3]
        right.append(all((a is None) == (b is None) and (a is None or torch.equal(a, b)) for a, b in here))
    return right


@pytest.mark.parametrize("case", STEPS)
def test_what_is_frozen_after_the_split(worlds: Worlds, case: str) -> None:
    at_split, steps = STEPS[case]
    assert worlds(2).run(_steps, at_split, steps) == [[True] * len(steps)] * 2


@pytest.mark.parametrize(
    ("trainable", "tag", "sources"), [({FIRST}, 1, "first.weight, first.bias"), ({INPUT}, 0, "input 0")]
)
def test_a_gradient_that_is_not_sent(worlds: Worlds, trainable: set[str], tag: int, sources: str) -> None:
    """Refused on the rank that would wait for it, and the other does not wait until its timeout."""
    world = worlds(2)
    with pytest.raises(RankError) as refusal:
        world.run(_steps, set(), [set(), trainable], within_s=world.timeout_s / 2)
    line = (
        f"the value for part 1 (tag {tag}) requires a gradient, and required none at split(); expected {sources} to "
        "require none: freeze or detach, or call split() again"
    )
    first, second = str(refusal.value).split(" of 2: ")[1:]
    assert f"GradientNotSent: {line}" in first
    assert f"rank 0 aborted the group: GradientNotSent: {line}" in second


def test_missing_messages_are_noticed(worlds: Worlds) -> None:
    results = worlds(4).run(_apart, SKIPS, [1, 3, 4], True)
    assert not results[-1][0] < 1e-2
    assert any(not apart < 1e-2 for _, mine in results[:-1] for apart in mine.values())


def test_the_graphs_list_every_message() -> None:
    import torch

    from ringtree.training.strategies.layers.cut_pass import split
    from tests.training.graphs import WIDTH, Dag

    first, second, third = (part.code for part in split(Dag(SKIPS), ["steps.2", "steps.5"], [torch.ones(4, WIDTH)]))
    assert "send(steps_0_layer, to = 1, tag = 1, with_gradient = True)" in first
    assert "send(x, to = 1, tag = 0, with_gradient = False)" in first
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


@pytest.mark.parametrize(
    "kind, expected",
    [
        ("add_", "add_ changes seen in place, which part 1 reads"),
        ("out=", "add changes seen in place, which part 1 reads"),
        ("a slice", "mul_ changes seen in place, which part 1 reads"),
        ("foreach", "_foreach_add_ changes seen in place, which part 1 reads"),
        ("batch norm", "batch_norm changes seen in place, which part 1 reads"),
        ("instance norm", "instance_norm changes seen in place, which part 1 reads"),
        ("changed later", "add_ changes seen in place, which is another part's"),
        ("data", "mul_ changes gain in place, which is another part's"),
        ("batch norm, still", None),
        ("read twice", None),
        ("changed and read in one part", None),
    ],
)
def test_a_buffer_that_a_part_changes_is_no_other_parts(kind: str, expected: str | None) -> None:
    import torch
    from torch import Tensor, nn

    from ringtree.training.strategies.layers.cut_pass import split

    class Cut(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
            self.gain = nn.Parameter(torch.ones(4))
            self.register_buffer("seen", torch.ones(4))
            self.register_buffer("spread", torch.ones(4))

        def change(self, x: Tensor) -> Any:
            of_x = x.detach().sum(0)
            norm, seen = nn.functional.batch_norm, self.seen
            return {
                "add_": lambda: seen.add_(of_x),
                "out=": lambda: torch.add(seen, of_x, out=seen),
                "a slice": lambda: seen[1:].mul_(of_x[1:]),
                "foreach": lambda: torch._foreach_add_([seen], [of_x]),
                "batch norm": lambda: norm(x, seen, self.spread, training=True),
                "instance norm": lambda: nn.functional.instance_norm(
                    x.view(2, 4, 1).expand(2, 4, 3), seen, self.spread
                ),
                "batch norm, still": lambda: norm(x, seen, self.spread),
            }.get(kind, lambda: x * seen)()

        def forward(self, x: Tensor) -> Tensor:
            x = self.a(x)
            if kind not in ("changed later", "changed and read in one part"):
                self.change(x)
            x = x * self.gain if kind == "data" else x
            first = x * self.seen if kind in ("changed later", "read twice") else x
            x = self.b(first)
            if kind in ("changed later", "changed and read in one part"):
                self.seen.add_(x.detach().sum(0))
            if kind == "data":
                self.gain.data.mul_(x.detach().sum())
            return x * self.seen

    cut = Cut()
    before = {name: value.clone() for name, value in cut.state_dict().items()}
    if expected is None:
        assert len(split(cut, ["b"], [torch.ones(2, 4)])) == 2
    else:
        with pytest.raises(ValueError, match=expected):
            split(cut, ["b"], [torch.ones(2, 4)])
    assert all(torch.equal(value, before[name]) for name, value in cut.state_dict().items())
