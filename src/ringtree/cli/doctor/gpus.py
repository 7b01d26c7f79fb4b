"""GPUs, their driver and its libraries, access of GPUs to each other, and processes that share one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.util import find_spec

from ringtree.cli.doctor.check import Check, CheckedHost, State
from ringtree.cli.doctor.programs import find
from ringtree.cli.doctor.software import package_version
from ringtree.machines.detect import THIS, detect
from ringtree.machines.detect.nvml import INSTALL
from ringtree.machines.detect.nvml_state import GpuState, NvmlReport, gpu_states
from ringtree.machines.host.isolation import container, isolation
from ringtree.machines.host.modules import NVIDIA, loaded, mps
from ringtree.machines.host.peer_access import explained, gpus_by_name, grouped, peer_pairs
from ringtree.machines.machine import Machine

SECTION = "gpus"
LIBRARIES = {
    "cuda-bindings": ("cuda-bindings",),
    "cuda-core": ("cuda-core",),
    "NVRTC": ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu13", "nvidia-cuda-nvrtc-cu12"),
    "NCCL": ("nvidia-nccl-cu13", "nvidia-nccl-cu12"),
}
"""Libraries by the packages of Python's that bring them."""


def gpus(host: CheckedHost) -> Iterator[Check]:
    """The GPUs by model, and what NVIDIA's need."""
    machine = detect(host.root)
    there = [machine.devices[number] for number in machine.gpus]
    if not there:
        yield Check(SECTION, "gpus", State.OK, "none", (), {"gpus": []})
        return
    models = Counter(f"{gpu.vendor} {gpu.model}".strip() for gpu in there)
    words = ", ".join(f"{number} × {model}" if number > 1 else model for model, number in models.items())
    listed = [{"name": gpu.name, "vendor": gpu.vendor, "model": gpu.model, "busid": gpu.busid} for gpu in there]
    words += "; ringtree's calls take CPU memory, and `ringtree plan` predicts NCCL's over GPUs"
    yield Check(SECTION, "gpus", State.OK, words, (), {"gpus": listed})
    if any(gpu.vendor == "nvidia" for gpu in there):
        yield from _nvidia(host, machine)


def _nvidia(host: CheckedHost, machine: Machine) -> Iterator[Check]:
    driver = host.sysfs.line("sys/module/nvidia/version")
    smi = find("nvidia-smi")
    figures = {"driver": driver or None, "nvidia_smi": smi or None, "nvml": find_spec("pynvml") is not None}
    if not driver and not loaded(host.sysfs, NVIDIA):
        words = "NVIDIA's kernel driver is not loaded"
        yield Check(SECTION, "driver", State.NOTE, words, ("modprobe nvidia",), figures)
    elif not smi:
        words = f"{driver or 'loaded'}, without nvidia-smi: was this container started with its GPUs?"
        yield Check(SECTION, "driver", State.NOTE, words, ("docker run --gpus all",), figures)
    else:
        yield Check(SECTION, "driver", State.OK, f"{driver or 'loaded'}, {smi}", (), figures)
    if not figures["nvml"]:
        words = "Python's nvidia-ml-py is missing: NVLinks between GPUs, and access to peers, stay unknown"
        yield Check(SECTION, "nvml", State.NOTE, words, (INSTALL,))
    report, silent = gpu_states() if host.root == THIS else (NvmlReport(), "")
    if silent and figures["nvml"]:
        yield Check(SECTION, "nvml", State.NOTE, silent, ("docker run --gpus all",))
    yield _libraries(host, driver or report.driver, report.cuda)
    yield from _peers(host, machine, gpus_by_name(machine, report.gpus))
    yield _service(host)
    yield from _processes(host)


def _libraries(host: CheckedHost, driver: str, cuda: str) -> Check:
    """Versions of what programs on GPUs use."""
    versions = {name: next(filter(None, map(package_version, names)), "") for name, names in LIBRARIES.items()}
    figures = {
        "driver": driver or None,
        "cuda": cuda or None,
        **{name: found or None for name, found in versions.items()},
    }
    brings = f"driver {driver or 'of unknown version'}" + (f" brings CUDA {cuda}" if cuda else "")
    listed = ", ".join(f"{name} {found}" for name, found in versions.items() if found)
    missing = [name for name, found in versions.items() if not found]
    words = "; ".join(
        filter(None, (brings, listed, f"not among Python's packages: {', '.join(missing)}" if missing else ""))
    )
    newer = newer_bindings(versions["cuda-bindings"], cuda)
    if newer:
        words += f"; cuda-bindings is of CUDA {newer}, which is newer than the driver's"
        return Check(
            SECTION, "cuda", State.NOTE, words, (f"pip install cuda-bindings~={cuda.partition('.')[0]}.0",), figures
        )
    return Check(SECTION, "cuda", State.OK, words, (), figures)


def newer_bindings(bindings: str, cuda: str) -> str:
    """The major version of cuda-bindings, where the driver's CUDA is older than that; "" else, or where unknown."""
    mine, of_driver = (text.partition(".")[0] for text in (bindings, cuda))
    return mine if mine.isdecimal() and of_driver.isdecimal() and int(mine) > int(of_driver) else ""


def _peers(host: CheckedHost, machine: Machine, states: Mapping[str, GpuState]) -> Iterator[Check]:
    """Access of GPUs to each other, pairs of the same answer in a row."""
    pairs = peer_pairs(machine, host.sysfs, states)
    for names, pair in grouped(pairs).items():
        fine = not pair.hindrances and pair.allowed is not False
        verdict = {True: "direct access", False: "no direct access", None: "direct access unknown"}[pair.allowed]
        figures = {"allowed": pair.allowed, "hindrances": list(pair.hindrances), "pairs": names}
        words = f"{names}: {verdict}, {explained(pair)}"
        yield Check(SECTION, "peers", State.OK if fine else State.NOTE, words, pair.remedies, figures)


def _service(host: CheckedHost) -> Check:
    """Whether processes that share a GPU run at once (MPS)."""
    seen = mps(host.sysfs, host.env.get("CUDA_MPS_PIPE_DIRECTORY", ""))
    figures = {"mps": seen or None}
    if seen == "daemon":
        words = "runs: kernels of several processes run on one GPU at once"
        return Check(SECTION, "mps", State.OK, words, (), figures)
    if seen and container(host.sysfs):
        words = "its pipe is here, its daemon is not seen from this container: it runs where that does"
        return Check(SECTION, "mps", State.OK, words, (), figures)
    words = (
        "not running: processes that share a GPU take turns of about 2 ms, so that ranks on one GPU wait milliseconds "
    )
    words += "for each other's kernels instead of microseconds; ranks with a GPU each do without"
    return Check(SECTION, "mps", State.NOTE, words, ("nvidia-cuda-mps-control -d",), figures)


def _processes(host: CheckedHost) -> Iterator[Check]:
    """The reasons that keep processes of this container from sharing GPU memory and host memory with each other."""
    around = isolation(host.sysfs)
    if not around.container and around.shared_memory:
        return
    where = f"in a container ({around.container})" if around.container else "here"
    missing, remedies = [], []
    if not around.shared_memory:
        missing.append("/dev/shm is not mounted, which NCCL and MPI need")
        remedies.append("docker run --shm-size 8g")
    if not around.ptrace:
        missing.append("the capability SYS_PTRACE is missing, without which processes hand on memory by sockets alone")
        remedies.append("docker run --cap-add SYS_PTRACE")
    words = (
        f"{where}: {'; '.join(missing) or 'nothing is missing'}; ranks in several containers of a host share memory of "
    )
    words += "GPUs only with one IPC namespace"
    figures = {"container": around.container, "ptrace": around.ptrace, "shared_memory": around.shared_memory}
    state = State.NOTE if missing else State.OK
    yield Check(SECTION, "container", state, words, (*remedies, "docker run --ipc host"), figures)
