"""The rank and world size of this process, from the environment variables of the launcher.

Read in this order: `ringtree run`, torchrun, Open MPI, MPICH's hydra, srun. None of them: a world of one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

TRACE_FOLDER = "RINGTREE_TRACE_FOLDER"
"""The variable with the folder of the ranks' recordings, set by the launcher."""
ADDRESS = "RINGTREE_ADDRESS"
"""The variable with host and port of rank 0, where ranks are on several hosts."""
SECRET = "RINGTREE_SECRET"
"""The variable with a text that only the ranks of a job know."""
INTERFACE = "RINGTREE_INTERFACE"
"""The variable with the name or numeric address of the interface by which other hosts reach this one."""
TIMEOUT = "RINGTREE_TIMEOUT"
TIMEOUT_S = 300.0
LONGEST_S = 1e6
"""Eleven days: the kernel counts a wait's milliseconds in 31 bits."""
FILE = "file://"
MOST_RANKS = 4096
"""The most ranks of a group."""
MOST_SHOWN = 40
"""The most characters of a value that an error repeats."""
TASKS = re.compile(r"(\d{1,7})(\(x\d{1,7}\))?(,\d{1,7}(\(x\d{1,7}\))?)*")
"""Slurm's numbers of tasks, node by node, as in 2(x3),1."""
LINKS_OWN = re.compile("fe[89ab][0-9a-f]:", re.IGNORECASE)
"""The beginning of IPv6 addresses that are a link's own (fe80::/10): who uses one names the link beside it."""
PARENT = "parent-"
"""The prefix of a job that no launcher names: its ranks are the children of one process."""
SPAWNED = "spawn-"
"""The prefix of the job of ranks that spawn() started."""
RAY = "ray-"
"""The prefix of the job of ranks that ringtree.ray started."""
STARTERS = {SPAWNED: "ringtree.spawn", RAY: "ringtree.ray"}
"""The function that started a job's ranks, by the prefix of the job."""


class World(NamedTuple):
    """A rank's environment. `job` is a text that all ranks of one job share and no other job of this user has."""

    rank: int
    size: int
    local_size: int
    job: str
    launcher: str

    @property
    def job_on_all_hosts(self) -> str:
        """The job, where the launcher names it alike on all hosts; "" where it may not."""
        local = self.launcher in ("MPICH", "none", "mpi4py") or self.job.startswith(PARENT)
        return "" if local else self.job


def detect(env: Mapping[str, str] | None = None, *, meets: bool = False) -> World:
    """The world this process was started in. ValueError where the environment contradicts itself, or where its ranks
    are on several machines and have no way to meet: neither RINGTREE_ADDRESS nor, as `meets` says, another."""
    env = os.environ if env is None else env
    world = next((w for ask in _LAUNCHERS if (w := ask(env)) is not None), None)
    if world is None:
        return World(0, 1, 1, f"alone-{os.getpid()}", "none")
    if not 0 <= world.rank < world.size:
        who = "RINGTREE_RANK and RINGTREE_WORLD_SIZE" if "RINGTREE_RANK" in env else world.launcher
        raise ValueError(f"{who} set rank {world.rank} of {world.size}; expected at least 1 rank, and one in 0..size-1")
    if world.local_size < world.size and not meets and not env.get(ADDRESS):
        raise ValueError(
            f"{world.launcher} started {world.size} ranks, {world.local_size} of them on this host; "
            f"set {ADDRESS}=host:port for all ranks, an address of rank 0's host that the others reach, or "
            "file:///path, a file that the hosts share"
        )
    return world._replace(job=plain(world.job))


def plain(text: str) -> str:
    """The text of a variable, in which bytes that are no UTF-8 are spelled out."""
    return secret_bytes(text).decode(errors="backslashreplace")


def secret_bytes(text: str | None) -> bytes:
    """The bytes of a variable, whichever they are."""
    return (text or "").encode(errors="surrogateescape")


def rendezvous_address(env: Mapping[str, str] | None = None) -> tuple[str, int] | str | None:
    """The meeting point of ranks on several hosts: host and port, or the path of the file that names them; None where
    all are on one host. ValueError for another text."""
    text = (os.environ if env is None else env).get(ADDRESS)
    if not text:
        return None
    if text.startswith(FILE) and text.removeprefix(FILE).startswith("/"):
        return text.removeprefix(FILE)
    host, _, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]") if host.startswith("[") and host.endswith("]") else host
    ambiguous = ":" in host and host == bare
    number = int(port) if re.fullmatch("[0-9]{1,5}", port) else 0
    if not _is_name(bare) or ambiguous or not 0 < number < 1 << 16:
        raise ValueError(
            f"{ADDRESS} is {_shown(text)}; expected host:port, as in 10.0.0.1:29400 or [fd00::1]:29400, or file:///path"
        )
    if LINKS_OWN.match(bare):
        raise ValueError(
            f"{ADDRESS} is {_shown(text)}, an address of one link's own, whose name is another on each host; expected "
            "another address of rank 0's host, or file:///path"
        )
    return bare, number


def _is_name(host: str) -> bool:
    """Whether a name can be looked up: its labels have 1 to 63 characters."""
    try:
        return bool(host.encode("idna"))
    except UnicodeError:
        return False


def leave_launcher() -> None:
    """Makes this process one that no launcher started, which may start ranks of its own."""
    for name in (ADDRESS, "RINGTREE_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_STEP_ID"):
        os.environ.pop(name, None)


def trace_folder(env: Mapping[str, str] | None = None) -> str | None:
    """The folder in which `ringtree run --trace` collects recordings; None without it."""
    return (os.environ if env is None else env).get(TRACE_FOLDER) or None


ENDED_RANKS = "RINGTREE_ENDED_RANKS"
"""The variable with the path of the file in which the launcher reports the ends of ranks."""
JOBS_OWN = ("RINGTREE_JOB", "RINGTREE_RANK", "RINGTREE_WORLD_SIZE", ENDED_RANKS, SECRET)
"""The variables that `ringtree run` gives each rank."""


def launched(env: Mapping[str, str]) -> bool:
    """Whether `ringtree run`, or one of STARTERS, started this process as a rank."""
    return "RINGTREE_RANK" in env and "RINGTREE_JOB" in env


def _ringtree(env: Mapping[str, str]) -> World | None:
    if "RINGTREE_RANK" not in env:
        return None
    rank, size = _number(env, "RINGTREE_RANK"), _size(env, "RINGTREE_WORLD_SIZE")
    job = env.get("RINGTREE_JOB", "")
    starter = next((name for prefix, name in STARTERS.items() if job.startswith(prefix)), "ringtree run")
    return World(rank, size, size, job, starter)


def _torchrun(env: Mapping[str, str]) -> World | None:
    if "RANK" not in env or "WORLD_SIZE" not in env:
        return None
    keys = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
    size = _size(env, "WORLD_SIZE")
    local = _number(env, "LOCAL_WORLD_SIZE") if "LOCAL_WORLD_SIZE" in env else size
    return World(_number(env, "RANK"), size, local, "/".join(env.get(k, "") for k in keys), "torchrun")


def _open_mpi(env: Mapping[str, str]) -> World | None:
    if "OMPI_COMM_WORLD_RANK" not in env:
        return None
    size = _size(env, "OMPI_COMM_WORLD_SIZE")
    local = _number(env, "OMPI_COMM_WORLD_LOCAL_SIZE") if "OMPI_COMM_WORLD_LOCAL_SIZE" in env else size
    job = env.get("PMIX_NAMESPACE") or env.get("OMPI_MCA_ess_base_jobid") or _unnamed(env)
    return World(_number(env, "OMPI_COMM_WORLD_RANK"), size, local, job, "Open MPI")


def _hydra(env: Mapping[str, str]) -> World | None:
    """MPICH and Intel MPI. Hydra gives ranks no name of their job: its proxy, one a machine, is the ancestor they
    share."""
    if "PMI_RANK" not in env or "PMI_SIZE" not in env:
        return None
    size = _size(env, "PMI_SIZE")
    local = _number(env, "MPI_LOCALNRANKS") if "MPI_LOCALNRANKS" in env else size
    return World(_number(env, "PMI_RANK"), size, local, _ancestor("hydra_pmi_proxy") or _unnamed(env), "MPICH")


def _srun(env: Mapping[str, str]) -> World | None:
    """Only inside a step: a batch script has SLURM_PROCID too, but it is one process."""
    if "SLURM_PROCID" not in env or "SLURM_STEP_ID" not in env:
        return None
    size = _size(env, _first_set(env, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"))
    nodes = _first_set(env, "SLURM_STEP_NUM_NODES", "SLURM_NNODES")
    per_node = _first_set(env, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
    local = size
    if nodes in env and _number(env, nodes) != 1 and per_node in env:
        if not (tasks := TASKS.fullmatch(env[per_node])):
            raise ValueError(f"{per_node} is {_shown(env[per_node])}; expected numbers of tasks, as in 2(x3),1")
        local = int(tasks[1])
    return World(_number(env, "SLURM_PROCID"), size, local, f"{env.get('SLURM_JOB_ID')}.{env['SLURM_STEP_ID']}", "srun")


_LAUNCHERS: tuple[Callable[[Mapping[str, str]], World | None], ...] = (_ringtree, _torchrun, _open_mpi, _hydra, _srun)


def _first_set(env: Mapping[str, str], name: str, other: str) -> str:
    """The variable that is set, the first of the two where both or none are."""
    return name if name in env or other not in env else other


def _size(env: Mapping[str, str], name: str) -> int:
    """The number of ranks. ValueError: for more than a group can have, before anything is made for each."""
    size = _number(env, name)
    if size > MOST_RANKS:
        raise ValueError(f"{name} is {_shown(env[name])}; expected 1 to {MOST_RANKS}, the most ranks of a group")
    return size


def _shown(text: str) -> str:
    return repr(text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}...")


def _number(env: Mapping[str, str], name: str) -> int:
    text = env.get(name)
    try:
        return int(text or "")
    except ValueError:
        found = "is not set" if text is None else f"is {_shown(text)}"
        raise ValueError(f"{name} {found}; expected a whole number, as the launcher sets it") from None


def _ancestor(name: str) -> str:
    """`NAME-PID-START` of the nearest ancestor of that name (as ps shows it); "" where there is none."""
    pid = os.getppid()
    while pid > 1:
        try:
            with open(f"/proc/{pid}/stat") as stat:
                command, rest = stat.read().split("(", 1)[1].rsplit(")", 1)
        except (OSError, IndexError):
            break
        fields = rest.split()
        if command == name[:15]:  # the kernel keeps 15 characters
            return f"{name}-{pid}-{fields[19]}"
        pid = int(fields[1])
    return ""


def _unnamed(env: Mapping[str, str]) -> str:
    """The job of ranks whose launcher does not name it: the user's name for it, else their parent."""
    return env.get("RINGTREE_JOB") or f"{PARENT}{os.getppid()}"


def patience(timeout_s: float | None, env: Mapping[str, str] | None = None) -> float:
    """The deadline of a wait in seconds: `timeout_s`, else RINGTREE_TIMEOUT of the environment, or of `env`, else 300;
    LONGEST_S at most, which infinity comes to. ValueError: for a value that is none."""
    variables = os.environ if env is None else env
    given: str | float = variables.get(TIMEOUT, TIMEOUT_S) if timeout_s is None else timeout_s
    try:
        seconds = -1.0 if isinstance(timeout_s, (str, bytes, bool)) else float(given)
    except (TypeError, ValueError):
        seconds = -1.0
    if not seconds > 0:
        name = TIMEOUT if timeout_s is None else "timeout_s"
        raise ValueError(f"{name} is {given!r}; expected a positive number of seconds")
    return min(seconds, LONGEST_S)


def patience_of(env: Mapping[str, str]) -> float:
    """The deadline that a job's environment asks for."""
    return patience(None, env)
