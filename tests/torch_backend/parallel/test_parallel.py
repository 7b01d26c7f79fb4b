"""torch's parallel training works unchanged: programs that come, by several ranks, to what one process comes to."""

from __future__ import annotations

from importlib import import_module

import pytest

from tests.torch_backend.conftest import Worlds

PROGRAMS: dict[str, str] = {
    "ddp": """plain many_buckets bucket_views static_graph no_sync without_averaging_it_is_noticed unused_parameters
        uneven_inputs uneven_inputs_raise batch_norm checkpointed autocast several_types of_pairs
        two_at_once twice_in_a_step saved_and_loaded""",
    "ddp_hooks": """allreduce fp16_compress built_in registered_by_name power_sgd power_sgd_in_fp16 chained_and_waiting
        step_in_the_hook post_local_sgd hierarchical_averages""",
    "zero": "plain in_buckets consolidated joined_with_another overlapped",
}
"""Modules beside this one, and their programs: functions that raise where a rank has something else."""

BEYOND_GLOO = {
    ("ddp_hooks", "power_sgd_in_many_buckets"),  # hangs: two threads call two buckets' callbacks at once
    ("ddp_hooks", "chained"),  # no future of a reduce_scatter
    ("zero", "overlapped"),  # torch refuses it: may hang
    ("zero", "overlapped_interleaved"),
}

TABLE = [(module, program) for module, programs in PROGRAMS.items() for program in programs.split()]


def _run(module: str, program: str) -> None:
    import torch

    torch.manual_seed(0)
    getattr(import_module(f"tests.torch_backend.parallel.{module}"), program)()


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("module, program", TABLE)
def test_as_one_process(worlds: Worlds, module: str, program: str, n: int) -> None:
    worlds(n).run(_run, module, program)


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("module, program", [row for row in TABLE if row not in BEYOND_GLOO])
def test_the_programs_are_right(worlds: Worlds, module: str, program: str, n: int) -> None:
    """What fails on Gloo too is the program's fault."""
    worlds(n, "gloo").run(_run, module, program)
