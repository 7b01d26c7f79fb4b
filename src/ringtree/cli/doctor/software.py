"""Python, ringtree and its engine, torch, and the launchers."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import numpy as np

import ringtree
from ringtree.cli.doctor.check import Check, CheckedHost, State, install
from ringtree.cli.doctor.programs import ask, find
from ringtree.runtime.engines.engine import native_module

SECTION, LAUNCHERS = "software", "launchers"
TORCH_S = 60.0
TORCH = """
import json
import torch
import torch.distributed as dist
import ringtree.torch_backend
named = getattr(getattr(dist, "Backend", None), "backend_list", [])
print(json.dumps([torch.__version__, dist.is_available(), "ringtree" in named]))
"""
"""Loads torch, which takes seconds and much memory, and prints its version and whether the backend is registered."""


def python(host: CheckedHost) -> Iterator[Check]:
    """The interpreter, numpy, and the kernel."""
    words = f"{platform.python_implementation()} {platform.python_version()}"
    figures = {"python": platform.python_version(), "numpy": np.__version__, "executable": sys.executable}
    yield Check(SECTION, "python", State.OK, f"{words}, numpy {np.__version__}, {sys.executable}", (), figures)
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    figures = {"system": platform.system(), "kernel": platform.release(), "architecture": platform.machine()}
    linux = platform.system() == "Linux"
    words = system if linux else f"{system}: ranks run on Linux; proofs, prices and simulations run here"
    yield Check(SECTION, "kernel", State.OK if linux else State.PROBLEM, words, (), figures)


def engine(host: CheckedHost) -> Iterator[Check]:
    """ringtree's version, and its native module's build."""
    figures: dict[str, str | None] = {"ringtree": ringtree.__version__, "build": None}
    try:
        native = native_module()
    except (ImportError, RuntimeError) as error:
        why = f"{ringtree.__version__}, without its native engine: {error}"
        remedies = ("pip install .", "make setup")
        yield Check(SECTION, "ringtree", State.PROBLEM, why, remedies, figures)
        return
    figures["build"] = native.BUILD
    words = f"{ringtree.__version__}, native engine of build {native.BUILD[:12]}"
    yield Check(SECTION, "ringtree", State.OK, words, (), figures)


def torch(host: CheckedHost) -> Iterator[Check]:
    """torch's version, and whether the backend registers there."""
    figures: dict[str, object] = {"torch": None, "registers": None}
    if find_spec("torch") is None:
        words = "not installed; only ringtree's backend of torch.distributed and `ringtree train` need it"
        yield Check(SECTION, "torch", State.NOTE, words, ("pip install torch",), figures)
        return
    output, why = ask([sys.executable, "-c", TORCH], TORCH_S)
    try:
        name, available, registers = json.loads(output.rpartition("\n")[2])
    except ValueError:
        remedies = ("pip install torch --force-reinstall",)
        yield Check(SECTION, "torch", State.PROBLEM, f"does not load: {why or output[-200:]}", remedies, figures)
        return
    figures = {"torch": name, "registers": registers}
    if registers:
        yield Check(SECTION, "torch", State.OK, f'{name}, the backend "ringtree" registers', (), figures)
        return
    lacks = "it does not register" if available else "this torch was built without torch.distributed"
    yield Check(SECTION, "torch", State.PROBLEM, f'{name}, but the backend "ringtree" is missing: {lacks}', (), figures)


def package_version(name: str) -> str:
    """The version of a package of Python's; "" where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _of_torch(path: str) -> str:
    return f"torch {package_version('torch')}".strip()


def _of_ray(path: str) -> str:
    return package_version("ray")


def _asked(*options: str) -> Callable[[str], str]:
    def ask_it(path: str) -> str:
        output, why = ask([path, *options])
        return output.partition("\n")[0].strip() or why

    return ask_it


def _mpi(path: str) -> str:
    """Open MPI or MPICH, by the words of its launcher."""
    output, why = ask([path, "--version"])
    first = output.partition("\n")[0].strip()
    if "Open MPI" in output or "OpenRTE" in output:
        return f"Open MPI {first.split()[-1]}"
    if "Intel" in output:
        return first
    if "HYDRA" in output:
        found = next((line.split()[-1] for line in output.splitlines() if line.strip().startswith("Version:")), "")
        return f"MPICH {found}"
    return first or why


FOUND: dict[str, tuple[Callable[[str], str], str, Mapping[str, str]]] = {
    "torchrun": (_of_torch, "torch", {}),
    "mpirun": (
        _mpi,
        "",
        {"apt-get": "openmpi-bin", "dnf": "openmpi", "zypper": "openmpi4", "apk": "openmpi", "pacman": "openmpi"},
    ),
    "srun": (_asked("--version"), "", {}),
    "ray": (_of_ray, "ray", {}),
    "ssh": (
        _asked("-V"),
        "",
        {
            "apt-get": "openssh-client",
            "dnf": "openssh-clients",
            "zypper": "openssh-clients",
            "apk": "openssh-client",
            "pacman": "openssh",
        },
    ),
}
"""The launchers: how the version is found, the package of Python's, and the packages by package manager."""


def launchers(host: CheckedHost) -> Iterator[Check]:
    """The programs that start ranks on several hosts; `ringtree run` needs none of them."""
    there = False
    missing: dict[str, tuple[str, ...]] = {}
    for name, (version_of, package, packages) in FOUND.items():
        if path := find(name):
            there = True
            words = version_of(path)
            figures = {"path": path, "version": words}
            yield Check(LAUNCHERS, name, State.OK, f"{words or 'of unknown version'}, {path}", (), figures)
        else:
            missing[name] = (f"pip install {package}",) if package else install(packages)
    if missing:
        words = f"{', '.join(missing)}; `ringtree run` starts ranks on this host without them"
        remedies = tuple(command for commands in missing.values() for command in commands)
        named = {"missing": {name: list(commands) for name, commands in missing.items()}}
        state = State.OK if there else State.NOTE
        yield Check(LAUNCHERS, "not here", state, words, remedies, named)
