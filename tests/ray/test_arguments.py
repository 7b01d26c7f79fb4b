"""Where no cluster is needed: refused arguments, the division into bundles, and a machine without Ray."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import ringtree.ray
from ringtree.ray.placement import Demand
from ringtree.runtime.bootstrap.environment import detect


@pytest.mark.parametrize(
    ("ranks", "options", "expected"),
    [
        (0, {}, "0 ranks: expected at least 1"),
        (2, {"per_node": 0}, "per_node is 0; expected at least 1 rank on a node"),
        (2, {"cpus_per_rank": 0}, "cpus_per_rank is 0; expected more than 0"),
        (2, {"placement": "tight"}, "placement is 'tight'; expected pack or spread"),
        (2, {"placement": "spread", "per_node": 1}, "expected it without placement='spread'"),
        (2, {"restarts": -1}, "restarts is -1; expected 0 or more"),
        (2, {"env": {"RINGTREE_TIMEOUT": "soon"}}, "RINGTREE_TIMEOUT is 'soon'; expected a positive number"),
    ],
)
def test_wrong_arguments_are_refused_before_ray_is_asked(ranks: int, options: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        ringtree.ray.run(print, ranks, **options)


@pytest.mark.parametrize(
    ("ranks", "per_node", "bundles", "strategy"),
    [
        (3, None, [1, 1, 1], "PACK"),
        (4, 2, [2, 2], "STRICT_SPREAD"),
        (5, 2, [2, 2, 1], "STRICT_SPREAD"),
        (1, 4, [1], "STRICT_SPREAD"),
    ],
)
def test_a_bundle_has_the_ranks_of_a_node(ranks: int, per_node: int | None, bundles: list[int], strategy: str) -> None:
    demand = Demand(ranks, per_node, 1, "pack")
    assert (demand.bundles(), demand.strategy) == (bundles, strategy)


@pytest.mark.parametrize(
    ("call", "begins", "remedy"),
    [
        ("run(print, 2)", "ringtree.ray needs Ray (", "pip install ray"),
        (
            "register_collective_backend()",
            "ringtree.ray.register_collective_backend needs a Ray that has ray.util.collective.backend_registry",
            "pip install ray --upgrade",
        ),
    ],
)
def test_without_ray_one_line_names_the_remedy(call: str, begins: str, remedy: str) -> None:
    program = f"import sys; sys.modules['ray'] = None; import ringtree.ray; ringtree.ray.{call}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: {begins}") and last.endswith(f"): {remedy}")


def test_a_rank_knows_that_ray_started_it() -> None:
    env = {"RINGTREE_RANK": "0", "RINGTREE_WORLD_SIZE": "2", "RINGTREE_JOB": "ray-1"}
    assert detect(env).launcher == "ringtree.ray"
