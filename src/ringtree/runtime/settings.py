"""The environment's variables RINGTREE_*: which there are, and which values are none. A launcher asks before it starts
ranks; each rank would say so by itself else."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

PREFIX = "RINGTREE_"
NAMES = (
    "ACCUMULATE", "ADDRESS", "ALGORITHM", "CHECK", "CONNECTIONS", "DEBUG", "DETERMINISTIC", "DEVICE_ENGINE",
    "DEVICE_STAGING", "DEVICE_WAITS", "ENDED_RANKS", "INTERFACE", "JOB", "NCCL_CARRIER", "RANK", "REPLACES", "RESTART",
    "SECRET", "SINGLE_COPY", "STACK_SIGNAL", "TIMEOUT", "TOPOLOGY", "TRACE_FOLDER", "UCX_LIBRARY",
    "WARN_SHARE", "WIRE", "WORLD_SIZE",
)  # fmt: skip
"""The variables that a program of ringtree reads, without their prefix."""
OF_DEVELOPMENT = (
    "BASE_KERNELS_ONLY", "BROWSER_REQUIRED", "BUILD", "DATA", "EXAMPLES", "INDEPENDENT", "ISA", "MPI", "MPI4PY",
    "PEERS", "TORCH_REQUIRED", "TRAIN_ERRORS",
)  # fmt: skip
"""The variables that only its build, its tests and its own processes read."""
KNOWN = tuple(PREFIX + name for name in (*NAMES, *OF_DEVELOPMENT))
RULES = {
    "RINGTREE_ACCUMULATE": ("ringtree.runtime.communicator.calls.ordering", "accumulate_of"),
    "RINGTREE_ADDRESS": ("ringtree.runtime.bootstrap.environment", "rendezvous_address"),
    "RINGTREE_ALGORITHM": ("ringtree.runtime.communicator.calls.defaults", "forced_of"),
    "RINGTREE_CHECK": ("ringtree.runtime.engines.shm", "checks"),
    "RINGTREE_CONNECTIONS": ("ringtree.runtime.engines.wires.tcp", "connections"),
    "RINGTREE_DEBUG": ("ringtree.runtime.communicator.calls.reporting", "debug_of"),
    "RINGTREE_DETERMINISTIC": ("ringtree.runtime.communicator.calls.ordering", "deterministic_of"),
    "RINGTREE_DEVICE_ENGINE": ("ringtree.runtime.engines.engine", "device_engine"),
    "RINGTREE_DEVICE_STAGING": ("ringtree.runtime.engines.device.cuda", "staged"),
    "RINGTREE_DEVICE_WAITS": ("ringtree.runtime.engines.device.cuda", "waits"),
    "RINGTREE_NCCL_CARRIER": ("ringtree.runtime.engines.nccl.choice", "chosen"),
    "RINGTREE_INTERFACE": ("ringtree.runtime.bootstrap.network.interfaces", "chosen_interface"),
    "RINGTREE_REPLACES": ("ringtree.runtime.launch.torch_variables", "replaced_of"),
    "RINGTREE_SINGLE_COPY": ("ringtree.runtime.engines.shm", "single_copies"),
    "RINGTREE_STACK_SIGNAL": ("ringtree.runtime.observing.stacks", "chosen_signal"),
    "RINGTREE_TIMEOUT": ("ringtree.runtime.bootstrap.environment", "patience_of"),
    "RINGTREE_WARN_SHARE": ("ringtree.runtime.engines.shm", "warning_of"),
    "RINGTREE_WIRE": ("ringtree.runtime.engines.wires", "chosen"),
}
"""Modules and their functions that read a variable, and raise ValueError for a value that is none; loaded where the
variable is set."""


def wrong(name: str, env: Mapping[str, str]) -> str:
    """The reason why a variable's value is none that ringtree takes; "" where it is one."""
    if name in RULES:
        module, reader = RULES[name]
        try:
            getattr(import_module(module), reader)(env)
        except ValueError as error:
            return str(error)
    return ""


def nearest(name: str) -> str | None:
    """The known variable that a name nearly is; None where there is none."""
    from difflib import get_close_matches  # late: few have a name to ask for

    near = get_close_matches(name.removeprefix(PREFIX), (*NAMES, *OF_DEVELOPMENT), 1, 0.75)
    return PREFIX + near[0] if near else None


def check(env: Mapping[str, str]) -> list[str]:
    """Returns a warning for each variable that nothing reads and that is nearly one of ours. ValueError: for the first
    value that is none."""
    there = [name for name in sorted(env) if name.startswith(PREFIX)]
    for name in there:
        if why := wrong(name, env):
            raise ValueError(why)
    return [f"nothing reads {name}; is it {near}?" for name in there if name not in KNOWN and (near := nearest(name))]
