"""A pass over a torch.fx graph: cuts it into parts that run on ranks of their own, with a Send and a Recv wherever a
value goes from one part to another.

    parts = split(module, ["blocks.2"], (rows,))      parts[0] ends before blocks.2 begins; print(parts[0].graph)

A part has the nodes from its cut to the next, in the graph's order, which is a topological one: so values go only from
a part to later ones, and gradients only back. A value is sent by the part that makes it, at its end, to each part that
uses it, however far; there it is received before its first use. Numbers (sizes) are not sent, for the shapes are fixed:
they are written into the graph. Inputs are the first part's, outputs the last one's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from ringtree.training.strategies.layers.changes import Values, memory
from ringtree.training.strategies.layers.send_receive import receive, send

NUMBERS = (int, float, bool, str, type(None), torch.dtype, torch.device)


def split(
    module: nn.Module,
    cuts: Sequence[str],
    examples: Sequence[Tensor],
    leaf: Callable[[nn.Module], bool] = lambda module: False,
) -> list[fx.GraphModule]:
    """Cuts a module into len(cuts) + 1 parts, which share its parameters under their names. `cuts`: names of modules or
    nodes, each the first of its part, in the graph's order. `examples`: inputs, of which shapes and types matter, and
    which of them require gradients: with the parameters that are trainable now, they decide which gradients go back.
    Later they may require fewer. `leaf`: modules that are not looked into, beside torch's own. ValueError: if the graph
    cannot be cut so."""
    whole = fx.GraphModule(module, _Tracer(leaf).trace(module))
    Values(whole).run(*examples)
    part_of = _parts(whole.graph, cuts)
    _check_modules(whole, part_of)
    _check_changes(part_of)
    crossing = _crossing(whole.graph, part_of)
    return [_part(whole, k, len(cuts), part_of, crossing) for k in range(len(cuts) + 1)]


class _Tracer(fx.Tracer):
    def __init__(self, leaf: Callable[[nn.Module], bool]) -> None:
        super().__init__()
        self._leaf, self._with_gradients = leaf, torch.is_grad_enabled()

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return self._leaf(m) or super().is_leaf_module(m, module_qualified_name)

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        node = super().create_node(*args, **kwargs)
        if torch.is_grad_enabled() != self._with_gradients:
            raise ValueError(
                f"{node.name} is made where gradients are switched off or on, which a graph does not record; expected "
                "detach(), or a leaf"
            )
        return node


def _parts(graph: fx.Graph, cuts: Sequence[str]) -> dict[fx.Node, int]:
    """Each node's part."""
    part_of: dict[fx.Node, int] = {}
    part = 0
    for node in graph.nodes:
        part += node.op != "placeholder" and part < len(cuts) and _is(node, cuts[part])
        part_of[node] = part
    if part < len(cuts):
        missed = cuts[part]
        known = ", ".join(n.target if n.op == "call_module" else n.name for n in graph.nodes if n.op != "output")
        raise ValueError(f"no cut at {missed!r}: expected the names of nodes or modules in the graph's order: {known}")
    return part_of


def _is(node: fx.Node, name: str) -> bool:
    """Whether a node has this name, or belongs to the module of this name."""
    return name == node.name or name in (at[0] for at in node.meta.get("nn_module_stack", {}).values())


def _check_modules(whole: fx.GraphModule, part_of: dict[fx.Node, int]) -> None:
    """No parameter or buffer in two parts: each of them would know but its share of the gradient."""
    owner: dict[int, tuple[int, str]] = {}
    for node, part in part_of.items():
        for name, state in _held(whole, node):
            first, where = owner.setdefault(id(state), (part, node.target))
            if first != part:
                raise ValueError(
                    f"{name} in part {part} is that of {where} in part {first}; cut where a parameter's uses are in "
                    "one part"
                )


def _check_changes(part_of: dict[fx.Node, int]) -> None:
    """No change in place of a memory that a node of another part made or reads: that part would not see it."""
    maker: dict[int, fx.Node] = {}
    changer: dict[int, fx.Node] = {}
    for node, part in part_of.items():
        if isinstance(made := node.meta.get("made"), Tensor):
            maker.setdefault(memory(made), node)
            by = changer.get(memory(made), node)
            if node.op == "get_attr" and part_of[by] != part:
                raise ValueError(f"{by.name} changes {node.target} in place, which part {part} reads: cut elsewhere")
        for changed in node.meta.get("changed", ()):
            changer.setdefault(changed, node)
            first = maker.get(changed, node)
            if part_of[first] != part:
                what = first.target if first.op == "get_attr" else first.name
                raise ValueError(f"{node.name} changes {what} in place, which is another part's: cut elsewhere")


def _held(whole: fx.GraphModule, node: fx.Node) -> list[tuple[str, Tensor]]:
    """The parameters that a node brings into its part, and the buffers, which their module may change."""
    if node.op == "get_attr":
        owner, _, name = node.target.rpartition(".")
        state = getattr(whole.get_submodule(owner), name)
        return [(node.target, state)] if isinstance(state, nn.Parameter) else []
    if node.op != "call_module":
        return []
    inner = whole.get_submodule(node.target)
    return [(f"{name} of {node.target}", state) for name, state in (*inner.named_parameters(), *inner.named_buffers())]


def _crossing(graph: fx.Graph, part_of: dict[fx.Node, int]) -> dict[fx.Node, list[int]]:
    """The values that go from one part to others, and to which, in the graph's order. A value's position here, from 0,
    is the tag of its messages."""
    found: dict[fx.Node, list[int]] = {}
    for node in graph.nodes:
        users = sorted({part_of[user] for user in node.users if not _is_known(user)} - {part_of[node]})
        if users and not _is_number(node.meta["made"]):
            _check_value(node)
            found[node] = users
    return found


def _is_number(made: Any) -> bool:
    return isinstance(made, NUMBERS) or (isinstance(made, (tuple, list)) and all(map(_is_number, made)))


def _is_known(node: fx.Node) -> bool:
    """Whether a node makes a number, which stands in the graph in its place."""
    return node.op != "output" and node.meta["made"] is not None and _is_number(node.meta["made"])


def _check_value(node: fx.Node) -> None:
    if not isinstance(node.meta["made"], Tensor):
        made = type(node.meta["made"]).__name__
        raise ValueError(f"{node.name}, a {made}, would be cut off from its uses; only tensors are sent: cut elsewhere")


def _part(
    whole: fx.GraphModule,
    number: int,
    last: int,
    part_of: dict[fx.Node, int],
    crossing: dict[fx.Node, list[int]],
) -> fx.GraphModule:
    graph, here = fx.Graph(), dict[fx.Node, Any]()
    tags = {value: tag for tag, value in enumerate(crossing)}

    def known(value: fx.Node) -> Any:
        if _is_known(value):
            return _number(value)
        if value not in here:
            here[value] = _received(graph, value, part_of[value], tags) if value in tags else _number(value)
        return here[value]

    for node, part in part_of.items():
        if part == number and not _is_known(node):
            for value in node.all_input_nodes:
                known(value)
            here[node] = graph.node_copy(node, known)
    if number < last:
        sent = [(value, to) for value, users in crossing.items() if part_of[value] == number for to in users]
        graph.output(tuple(_sent(graph, here[value], to, tags[value]) for value, to in sent))
    return fx.GraphModule(whole, graph, class_name=f"Part{number}")


def _sent(graph: fx.Graph, value: fx.Node, to: int, tag: int) -> fx.Node:
    arguments = {"to": to, "tag": tag, "with_gradient": value.meta["made"].requires_grad}
    return graph.create_node("call_function", send, (value,), arguments, f"send_{value.name}_to_{to}")


def _received(graph: fx.Graph, value: fx.Node, source: int, tags: dict[fx.Node, int]) -> fx.Node:
    made: Tensor = value.meta["made"]
    arguments = {
        "source": source,
        "tag": tags[value],
        "shape": tuple(made.shape),
        "dtype": made.dtype,
        "with_gradient": made.requires_grad,
    }
    return graph.create_node("call_function", receive, (), arguments, f"receive_{value.name}")


def _number(value: fx.Node) -> Any:
    made = value.meta["made"]
    return tuple(made) if isinstance(made, torch.Size) else made
