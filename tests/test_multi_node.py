"""The recipes for several hosts: commands, scripts and manifests have only words that their programs know.

tests/runtime/hosts/test_recipes.py runs those whose launcher is installed. The tables here are typed from the manuals.
"""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
PAGE = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("multi_node.md", "ray.md"))
KUBERNETES = ROOT / "examples" / "kubernetes"
MANIFESTS = sorted(KUBERNETES.glob("*.yaml"))
SCRIPTS = sorted((ROOT / "examples" / "slurm").glob("*.sh"))
OPTIONS = {
    "docker": {"--network", "-e"},
    "export": set[str](),
    "kubectl": {"--from-literal", "-f"},
    "mpirun": {"-n", "-H", "-x", "-ppn", "-hosts"},
    "pip": set[str](),
    "podman": {"--network", "-e"},
    "python": {"--actors", "--ranks", "--per-node"},
    "python3": {"-m"},
    "ringtree": {"--hosts", "--html", "--ssh", "--trace", "-m", "-n"},
    "sbatch": set[str](),
    "srun": {"--nodes", "--ntasks-per-node", "--kill-on-bad-exit"},
    "torchrun": {"--nnodes", "--node-rank", "--nproc-per-node", "--master-addr", "--master-port"},
}
"""The options of launchers that a page may show, up to the name of the program that they start."""
SBATCH = {"--nodes", "--ntasks-per-node"}


def indented() -> list[str]:
    """The blocks of commands on the page, which are indented: no Python, and no error of a rank or a launcher."""
    blocks = re.findall(r"(?:^    .+\n)+", PAGE, re.MULTILINE)
    others = tuple(f"    {word} " for word in ("rank", "import", "def", "results", "ringtree run:"))
    return [block for block in blocks if not block.startswith(others)]


def commands(text: str) -> Iterator[list[str]]:
    """The words of each command of a shell's text, without variables before it."""
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            words = shlex.split(re.sub(r"\$\(.*\)", "output", line).removesuffix("&"))
            while words and re.match(r"[A-Z_]+=", words[0]):
                words.pop(0)
            yield words


def understood(words: list[str]) -> None:
    """Fails for an option that the program does not have, and for a file that is not there."""
    known = OPTIONS[words[0]]
    for word in words[1:]:
        if word.endswith((".py", ".yaml", ".sh")):
            assert (ROOT / word.removeprefix("/app/")).is_file(), word
            if words[0] != "kubectl":
                break
        elif word.startswith("-"):
            assert word.partition("=")[0] in known, f"{words[0]} {word}"


def variables_in(text: str) -> set[str]:
    return set(re.findall(r"RINGTREE_[A-Z_]+", text))


@pytest.mark.parametrize("block", indented(), ids=lambda block: block.split()[0])
def test_each_command_of_the_page_is_one(block: str) -> None:
    assert subprocess.run(["sh", "-n"], input=block, text=True).returncode == 0
    for words in commands(block):
        understood(words)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_each_script_is_one(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert subprocess.run(["bash", "-n", str(path)]).returncode == 0
    assert {option.partition("=")[0] for option in re.findall(r"^#SBATCH (\S+)", text, re.MULTILINE)} <= SBATCH
    for words in commands(text):
        if words[0] != "export":
            understood(words)


def test_all_variables_are_ones_of_ours() -> None:
    source = {name for path in (ROOT / "src").rglob("*.py") for name in variables_in(path.read_text(encoding="utf-8"))}
    shown = [PAGE, *(path.read_text(encoding="utf-8") for path in [*MANIFESTS, *SCRIPTS])]
    assert variables_in("".join(shown)) <= source


def test_the_page_names_every_example() -> None:
    for path in [*MANIFESTS, *SCRIPTS, *(ROOT / "examples").glob("*ray*.py")]:
        assert f"(../{path.relative_to(ROOT)})" in PAGE


RESOURCES = {"limits": {"cpu": str, "memory": str}}
CONTAINER = {
    "name": str,
    "image": str,
    "workingDir": str,
    "command": [str],
    "env": [{"name": str, "value": str, "valueFrom": {"secretKeyRef": {"name": str, "key": str}}}],
    "ports": [{"name": str, "containerPort": int}],
    "resources": RESOURCES,
}
POD = {"spec": {"containers": [CONTAINER]}}
TORCH_REPLICA = {"replicas": int, "restartPolicy": str, "template": POD}
MPI_REPLICA = {"replicas": int, "template": POD}
RAY_PARAMETERS = {"num-cpus": str}
SPECS: dict[tuple[str, str], dict[str, Any]] = {
    ("kubeflow.org/v1", "PyTorchJob"): {
        "nprocPerNode": str,
        "pytorchReplicaSpecs": {"Master": TORCH_REPLICA, "Worker": TORCH_REPLICA},
    },
    ("kubeflow.org/v2beta1", "MPIJob"): {
        "slotsPerWorker": int,
        "runPolicy": {"cleanPodPolicy": str},
        "mpiReplicaSpecs": {"Launcher": MPI_REPLICA, "Worker": MPI_REPLICA},
    },
    ("ray.io/v1", "RayJob"): {
        "entrypoint": str,
        "shutdownAfterJobFinishes": bool,
        "rayClusterSpec": {
            "rayVersion": str,
            "headGroupSpec": {"rayStartParams": RAY_PARAMETERS, "template": POD},
            "workerGroupSpecs": [
                {
                    "groupName": str,
                    "replicas": int,
                    "minReplicas": int,
                    "maxReplicas": int,
                    "rayStartParams": RAY_PARAMETERS,
                    "template": POD,
                }
            ],
        },
    },
}
"""The fields that these kinds have, as far as manifests here take them, and their types."""


def strangers(value: Any, expected: Any, where: str = "") -> list[str]:
    """The fields that are not expected, and values of another type."""
    if isinstance(expected, dict) and isinstance(value, dict):
        found = [f"{where}.{name}" for name in value if name not in expected]
        for name in set(value) & set(expected):
            found += strangers(value[name], expected[name], f"{where}.{name}")
        return sorted(found)
    if isinstance(expected, list) and isinstance(value, list):
        return [name for number, item in enumerate(value) for name in strangers(item, expected[0], f"{where}.{number}")]
    return [] if type(value) is expected else [where]


def containers(value: Any) -> Iterator[dict[str, Any]]:
    """All containers of a manifest."""
    if isinstance(value, dict):
        yield from value.get("containers", ())
        for inside in value.values():
            yield from containers(inside)
    elif isinstance(value, list):
        for inside in value:
            yield from containers(inside)


def manifest(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_a_manifest_has_known_fields_images_and_commands(path: Path) -> None:
    job = manifest(path)
    expected = {
        "apiVersion": str,
        "kind": str,
        "metadata": {"name": str},
        "spec": SPECS[job["apiVersion"], job["kind"]],
    }
    assert strangers(job, expected) == []
    for container in containers(job):
        assert re.fullmatch(r"registry\.example\.com/ringtree(-mpi|-ray)?:[\d.]+", container["image"])
        words = container.get("command", [])
        if words[:2] == ["sh", "-c"]:
            assert subprocess.run(["sh", "-n"], input=words[2], text=True).returncode == 0
            program = re.search(r"exec (.*)", words[2])
            assert program is not None
            understood(shlex.split(program[1].replace("python3", "")))


def test_a_wrong_manifest_is_found() -> None:
    job = manifest(KUBERNETES / "pytorchjob.yaml")
    fields = SPECS[job["apiVersion"], job["kind"]]
    job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["images"] = "x"
    job["spec"]["nprocPerNode"] = 4
    assert strangers(job["spec"], fields) == [
        ".nprocPerNode",
        ".pytorchReplicaSpecs.Master.template.spec.containers.0.images",
        ".pytorchReplicaSpecs.Worker.template.spec.containers.0.images",  # the same template
    ]


def test_the_numbers_of_ranks_agree() -> None:
    mpi = manifest(KUBERNETES / "mpijob.yaml")["spec"]
    launcher = next(containers(mpi["mpiReplicaSpecs"]["Launcher"]))["command"][2]
    assert f"mpirun -n {mpi['slotsPerWorker'] * mpi['mpiReplicaSpecs']['Worker']['replicas']} " in launcher
    ray = manifest(KUBERNETES / "rayjob.yaml")["spec"]
    workers = ray["rayClusterSpec"]["workerGroupSpecs"][0]
    _, path, *options = shlex.split(ray["entrypoint"])
    source = (ROOT / path.removeprefix("/app/")).read_text(encoding="utf-8")
    assert options[::2] == ["--ranks", "--per-node"] and all(f'"{option}"' in source for option in options[::2])
    ranks, per_node = map(int, options[1::2])
    assert ranks == per_node * workers["replicas"]
    assert workers["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] == str(per_node)
    version = (ROOT / "tests" / "ray" / "requirements.txt").read_text().rpartition("==")[2].strip()
    assert ray["rayClusterSpec"]["rayVersion"] == version
    torch = manifest(KUBERNETES / "pytorchjob.yaml")["spec"]
    assert torch["nprocPerNode"] == next(containers(torch))["resources"]["limits"]["cpu"]


def test_the_program_on_ray_has_a_help(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["on_ray.py", "--help"])
    with pytest.raises(SystemExit):
        runpy.run_path(str(ROOT / "examples" / "on_ray.py"), run_name="__main__")
    assert "--per-node" in capsys.readouterr().out
