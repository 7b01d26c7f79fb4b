"""How torch finds the backend, and what that may cost it: nothing, whatever the environment."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from datetime import timedelta
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import entry_points
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.torch_backend.conftest import Worlds
from tests.torch_backend.faults import fresh
from tests.torch_backend.forked import context

LOADED = "sorted(m for m in sys.modules if m.split('.')[0] == 'ringtree')"


def python(program: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A program as a user's would run, away from the source tree."""
    return subprocess.run(
        [sys.executable, "-c", program], cwd="/", env={**os.environ, **env}, capture_output=True, text=True
    )


def _alone(answer: Connection, backend: str, version: str) -> None:
    """The error of a job of one rank; "" where it sums up."""
    import torch
    import torch.distributed as dist

    torch.__version__ = version or torch.__version__
    try:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
        dist.all_reduce(torch.ones(1))
    except (RuntimeError, ValueError) as error:
        answer.send(f"{type(error).__name__}: {error}")
    else:
        answer.send("")


def error_of(backend: str, version: str = "") -> str:
    """The error of a job of one rank, in a process of its own; `version`: what torch takes itself for."""
    ours, theirs = context().Pipe(duplex=False)
    process = fresh(_alone, theirs, backend, version)
    process.start()
    theirs.close()
    error: str = ours.recv()
    process.join()
    assert process.exitcode == 0
    return error


def test_importing_torch_registers_and_loads_next_to_nothing() -> None:
    """Not even numpy is needed for it, and no setting that is wrong stands in its way."""
    program = (
        "import sys; sys.modules['numpy'] = None; import torch, torch.distributed as dist\n"
        f"print(dist.is_backend_available('ringtree'), dist.Backend.default_device_backend_map['cpu'], {LOADED})"
    )
    wrong = {"RINGTREE_TIMEOUT": "soon", "RINGTREE_ALGORITHM": "none", "RINGTREE_TOPOLOGY": "/nowhere", "RANK": "x"}
    done = python(program, **wrong)
    modules = ["ringtree", "ringtree.torch_backend", "ringtree.torch_backend.registration"]
    assert done.stdout == f"True gloo {modules}\n", done.stderr


def test_torch_need_not_load_it() -> None:
    """A torch that looks for backends by name (2.14) loads it all the same once its name is asked for."""
    program = (
        f"import sys, torch, torch.distributed as dist; print({LOADED}, 'RINGTREE' in dist.Backend._plugins)\n"
        "by_name = hasattr(dist.Backend, '_ensure_backend_registered')\n"
        "print(dist.is_backend_available('ringtree') == by_name)\n"
        "import ringtree.torch_backend; print(dist.is_backend_available('ringtree'))"
    )
    assert python(program, TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout == "[] False\nTrue\nTrue\n"


@pytest.mark.parametrize("group", ["torch.backends", "torch.distributed.backends"])
def test_torch_finds_it_in_the_package(group: str) -> None:
    (found,) = (each for each in entry_points(group=group) if each.name == "ringtree")
    assert callable(found.load())


def test_a_torch_before_the_oldest_is_refused() -> None:
    error = error_of("ringtree", "2.6.3+cpu")
    assert error.startswith("RuntimeError: torch 2.6.3+cpu frees a call") and "expected torch 2.7 or later" in error


def test_without_torch_the_error_names_what_installs_it() -> None:
    done = python("import sys; sys.modules['torch'] = None; import ringtree.torch_backend")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: ringtree.torch_backend needs torch") and "pip install torch" in last


def test_the_engine_is_not_linked_against_torch() -> None:
    """So that one wheel serves every torch."""
    package = find_spec("ringtree._native")
    assert package is not None and package.origin is not None and package.origin.endswith(tuple(EXTENSION_SUFFIXES))
    dynamic = subprocess.run(
        ["readelf", "--dynamic", package.origin], capture_output=True, text=True, check=True
    ).stdout
    needed = re.findall(r"NEEDED.*\[(.*)\]", dynamic)
    assert "libc.so.6" in needed
    assert not [name for name in needed if re.search("torch|c10|python", name)]


def test_the_version_of_torch_stands_in_one_place() -> None:
    root = Path(__file__).parents[2]
    named = [
        str(path.relative_to(root))
        for folder in ("", ".ci", "tests/torch_backend")
        for path in sorted((root / folder).iterdir())
        if path.is_file() and path != Path(__file__) and "torch==" in path.read_text(errors="replace")
    ]
    assert named == ["tests/torch_backend/requirements.txt"]


@pytest.mark.parametrize(
    ("backend", "expected"),
    [
        ("cpu:ringtree", ""),
        ("cpu:ringtree,cuda:ringtree", ""),
        (
            "cpu:ringtree,cuda:nccl",
            "ValueError: backend 'cpu:ringtree,cuda:nccl': in a group of this torch nothing serves beside",
        ),
        (
            "cpu:gloo,cuda:ringtree",
            "ValueError: backend 'cpu:gloo,cuda:ringtree': in a group of this torch nothing serves beside",
        ),
    ],
)
def test_devices_together(backend: str, expected: str) -> None:
    error = error_of(backend)
    assert error.startswith(expected) and bool(error) == bool(expected), error


# -- BackendBase, which the torch that is pinned here has not: what can be tested without it

TENSOR_LISTS = ["allreduce", "allreduce_sparse", "allreduce_coalesced", "broadcast", "reduce"]
TWO_TENSORS = [
    "all_gather_single", "all_gather_single_coalesced", "allgather", "allgather_coalesced", "alltoall", "gather",
    "reduce_scatter", "reduce_scatter_single", "reduce_scatter_single_coalesced", "scatter",
]  # fmt: skip
OVERRIDABLE = {
    **dict.fromkeys(TENSOR_LISTS, 2),
    **dict.fromkeys(TWO_TENSORS, 3),
    "all_to_all_single": 5,
    "barrier": 1,
    "send": 3,
    "recv": 3,
    "recv_anysource": 2,
    "_set_sequence_number_for_group": 0,
    "_get_sequence_number_for_group": 0,
    "_set_group_name": 1,
    "getBackendName": 0,
    "set_timeout": 1,
    "supports_tensor_alloc": 1,
    "allocate_tensor": 3,
    "abort": 0,
    "shutdown": 0,
}
"""By name, how many arguments torch's C++ gives each."""


class BackendBase:
    """Stands for torch's."""

    def __init__(self, rank: int, size: int) -> None:
        self.created_with = rank, size

    @staticmethod
    def Options(name: str, timeout: timedelta) -> tuple[str, timedelta]:  # torch's name
        return name, timeout


class Group:
    """Stands for torch's own group, which a backend serves."""

    def __init__(self, backend: object) -> None:
        self._get_backend = lambda device: backend if device.type == "cpu" else None


def _serves_as_a_backend(folder: str) -> list[str]:
    import torch
    import torch.distributed as dist

    from ringtree.torch_backend import communicator, monitored_barrier
    from ringtree.torch_backend.registration import create

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dist, "BackendBase", BackendBase, raising=False)
        options = dist.distributed_c10d._DistributedBackendOptions()
        options.store = dist.FileStore(folder + "/store", dist.get_world_size())
        options.group_rank, options.group_size = dist.get_rank(), dist.get_world_size()
        options.timeout, options.group_id = dist.default_pg_timeout, "mine"
        options.global_ranks_in_group = []
        made = create(options, None)
        assert made.created_with == (dist.get_rank(), 2)
        assert made.options == ("ringtree", dist.default_pg_timeout)
        x = torch.ones(3)
        made.allreduce([x], dist.AllreduceOptions()).wait()
        made.barrier(dist.BarrierOptions()).wait()
        monitored_barrier(Group(made))  # type: ignore[arg-type]
        assert communicator(Group(made)) is made.communicator  # type: ignore[arg-type]
        for name, arguments in OVERRIDABLE.items():
            inspect.signature(getattr(made, name)).bind(*range(arguments))
        made.shutdown()
        return [type(made).__name__, repr(x.tolist())]


def test_the_same_calls_serve_as_a_backend_of_torchs_own_group(worlds: Worlds, tmp_path: Path) -> None:
    assert worlds(2).run(_serves_as_a_backend, str(tmp_path)) == [["Backend", "[2.0, 2.0, 2.0]"]] * 2
