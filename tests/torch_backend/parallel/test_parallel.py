"""torch's parallel training works unchanged: programs of several ranks reach the result of one process."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.torch_backend.conftest import Worlds

PROGRAMS: dict[str, str] = {
    "ddp": """plain many_buckets bucket_views static_graph no_sync without_averaging_it_is_noticed unused_parameters
        uneven_inputs uneven_inputs_by_those_left uneven_inputs_raise batch_norm checkpointed autocast several_types
        sparse_gradients of_pairs two_at_once twice_in_a_step saved_and_loaded""",
    "ddp_hooks": """allreduce fp16_compress built_in registered_by_name power_sgd power_sgd_in_many_buckets
        power_sgd_in_fp16 chained chained_and_waiting step_in_the_hook post_local_sgd hierarchical_averages""",
    "zero": "plain in_buckets consolidated joined_with_another overlapped overlapped_interleaved",
    "fsdp1": """full_shard shard_grad_op no_shard original_parameters hybrid clipped no_sync mixed_precision
        full_state sharded_state local_state with_a_hook""",
    "fsdp2": """nested kept_after_forward resharded_to_pairs of_one_layer mixed_precision reduced_in_bfloat16 clipped
        hybrid accumulated accumulated_without_resharding prefetched checkpointed offloaded from_one_rank with_adam
        memory_of_the_group""",
    "dtensor": """distributed redistributed summed_up multiplied operated_on of_other_types made_in_place in_modules
        mapped_locally meshes""",
    "tensor_parallel": "columns_and_rows sequences losses with_fsdp2",
    "functional": "values several_at_once in_groups with_gradients dist_nn compiled compiled_in_place compiled_ddp",
    "checkpoints": "resumed resumed_under_another_mesh asynchronous tensors of_a_missing_folder",
    "pipelines": """gpipe one_forward_one_backward without_losses interleaved looped interleaved_zero_bubble
        zero_bubble_v with_data_parallelism""",
}
"""Modules beside this one, and their programs: functions that raise where a rank has something else."""

LONG = {
    "functional": "compiled_fsdp2 compiled_by_inductor",
    "pipelines": "split_by_tracing",
}
WITHIN_S = 240.0
"""Of the long ones; a compiler's first time takes a minute of two cores."""

BEYOND_GLOO = {
    ("ddp_hooks", "power_sgd_in_many_buckets"),
    ("ddp_hooks", "chained"),
    ("zero", "overlapped"),
    ("zero", "overlapped_interleaved"),
    ("fsdp2", "memory_of_the_group"),
}
"""Programs that torch refuses on Gloo, or that hang there."""


UNDER_ANOTHER = "resumed_under_another_mesh"


def _rows(programs: dict[str, str]) -> list[tuple[str, str]]:
    return [(module, program) for module, names in programs.items() for program in names.split()]


TABLE, LONG_TABLE = _rows(PROGRAMS), _rows(LONG)


PAIRS = {
    "ddp": "of_pairs",
    "ddp_hooks": "post_local_sgd hierarchical_averages",
    "zero": "joined_with_another",
    "fsdp1": "hybrid",
    "fsdp2": "resharded_to_pairs of_one_layer hybrid",
}
"""Programs whose ranks, rows or layers go in pairs."""
OF_THREE = [
    row
    for row in TABLE
    if row[0] in (*PAIRS, "checkpoints") and row[1] not in PAIRS.get(row[0], "").split() and row[1] != UNDER_ANOTHER
]
QUICK = {
    ("fsdp2", "hybrid"),
    ("fsdp2", "memory_of_the_group"),
    ("tensor_parallel", "with_fsdp2"),
    ("pipelines", "one_forward_one_backward"),
    ("checkpoints", "asynchronous"),
    ("ddp", "many_buckets"),
    ("ddp_hooks", "power_sgd"),
    ("zero", "plain"),
}
"""The programs that are always run over hosts. HSDP and 2D layouts have their shards inside hosts."""
OF_FOUR = {
    *QUICK,
    *_rows(PAIRS),
    ("checkpoints", UNDER_ANOTHER),
    ("dtensor", "distributed"),
    ("dtensor", "redistributed"),
    ("dtensor", "meshes"),
    ("functional", "in_groups"),
    ("pipelines", "with_data_parallelism"),
}
"""The programs that four ranks always run: those of grids and pairs, of which two ranks have one line, and one of each
module."""


def _over_hosts() -> list[Any]:
    """A row of the table and its hosts' numbers of ranks."""
    rows = [((2, 2), *row) for row in TABLE] + [((1, 1, 1), *row) for row in OF_THREE]
    quick = [len(layout) == 2 and (module, program) in QUICK for layout, module, program in rows]
    return [
        pytest.param(*row, marks=() if fast else pytest.mark.slow, id="-".join([*map(str, row[0]), *row[1:]]))
        for row, fast in zip(rows, quick, strict=True)
    ]


def _on_two_and_four() -> list[Any]:
    """A row of the table and the number of ranks."""
    return [
        pytest.param(*row, n, marks=() if n == 2 or row in OF_FOUR else pytest.mark.slow)
        for row in TABLE
        for n in (2, 4)
    ]


def _run(module: str, program: str) -> None:
    import torch

    torch.manual_seed(0)
    getattr(import_module(f"tests.torch_backend.parallel.{module}"), program)()


@pytest.mark.parametrize("module, program, n", _on_two_and_four())
def test_as_one_process(worlds: Worlds, module: str, program: str, n: int) -> None:
    worlds(n).run(_run, module, program)


@pytest.mark.parametrize("layout, module, program", _over_hosts())
def test_as_one_process_over_hosts(
    worlds_over_hosts: Worlds, layout: tuple[int, ...], module: str, program: str
) -> None:
    worlds_over_hosts(layout).run(_run, module, program)


def test_every_program_is_in_the_table() -> None:
    listed = set(TABLE + LONG_TABLE)
    for file in sorted(set(Path(__file__).parent.glob("*.py")) - {Path(__file__)}):
        programs = {(file.stem, name) for name in re.findall(r"^def ([a-z]\w*)\(\) -> None:", file.read_text(), re.M)}
        assert programs == {row for row in listed if row[0] == file.stem}


@pytest.mark.slow
@pytest.mark.timeout(WITHIN_S + 20)
@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("module, program", LONG_TABLE)
def test_as_one_process_at_length(worlds: Worlds, module: str, program: str, n: int) -> None:
    worlds(n).run(_run, module, program, within_s=WITHIN_S)


@pytest.mark.slow
@pytest.mark.timeout(WITHIN_S + 20)
@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("module, program", [row for row in TABLE + LONG_TABLE if row not in BEYOND_GLOO])
def test_the_programs_are_right(worlds: Worlds, module: str, program: str, n: int) -> None:
    """A failure on Gloo too is the program's fault."""
    worlds(n, "gloo").run(_run, module, program, within_s=WITHIN_S)
