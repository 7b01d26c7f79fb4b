"""Ranks that Slurm starts on two nodes: a controller and two slurmd on hosts of a lab, joined by munge."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.runtime.hosts.conftest import made_lab
from tests.runtime.hosts.slurm import Slurm, missing, python_path
from tests.test_multi_node import ROOT
from tests.waiting import until

pytestmark = pytest.mark.slow
PORT = 28830
NODES, PER_NODE = 2, 2
MEET = """
import numpy, ringtree
with ringtree.init() as comm:
    print(comm.rank, *comm.hosts, comm.all_reduce(numpy.full(4, comm.rank + 1.0))[0], flush=True)
"""
DESCENT = """
import sys, numpy as np, ringtree
with ringtree.init() as comm:
    a, b = (np.load(sys.argv[1])[name][comm.rank :: comm.size] for name in "ab")
    x = np.zeros(a.shape[1])
    for _ in range(50):
        x -= 1e-3 * comm.all_reduce(a.T @ (a @ x - b))
    np.save(f"{sys.argv[2]}/{comm.rank}.npy", x)
"""
FAIL = """
import time, ringtree
comm = ringtree.init()
if comm.rank == 3:
    raise SystemExit(7)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    if why := missing():
        pytest.skip(why)
    for lab in made_lab():
        folder = tmp_path_factory.mktemp("slurm")
        names = "".join(f"{lab.address(host)} {lab.name(host)}\n" for host in range(lab.hosts))
        (folder / "hosts").write_text("127.0.0.1 localhost\n" + names)
        for host in range(lab.hosts):
            lab.run(host, f"mount --bind {folder}/hosts /etc/hosts")
        with Slurm(lab, folder, PORT) as made:
            yield made


def variables(slurm: Slurm, port: int) -> dict[str, str]:
    """The page's variables; rank 0 is on the first node."""
    address = f"{slurm.lab.address(1)}:{port}"
    return {
        "PATH": python_path(),
        "RINGTREE_ADDRESS": address,
        "RINGTREE_SECRET": "of the tests",
        "RINGTREE_TIMEOUT": "30",
    }


def srun(slurm: Slurm, folder: Path, text: str, env: dict[str, str], *words: str) -> tuple[int, str]:
    """Runs a program by srun on both nodes."""
    program = folder / "program.py"
    program.write_text(text)
    options = (f"--nodes={NODES}", f"--ntasks-per-node={PER_NODE}", "--kill-on-bad-exit=1")
    return slurm.run("srun", *options, sys.executable, str(program), *words, env=env)


def ranks_lines(shown: str) -> list[str]:
    """The lines that are the ranks', sorted."""
    return sorted(line for line in shown.splitlines() if not line.startswith("srun:"))


def test_ranks_on_both_nodes_meet_at_an_address(slurm: Slurm, tmp_path: Path) -> None:
    code, shown = srun(slurm, tmp_path, MEET, variables(slurm, PORT + 10))
    assert (code, ranks_lines(shown)) == (0, [f"{rank} 0 0 1 1 10.0" for rank in range(4)])


def test_ranks_on_both_nodes_meet_by_a_folder(slurm: Slurm, tmp_path: Path) -> None:
    env = {"RINGTREE_ADDRESS": f"file://{tmp_path}", "RINGTREE_TIMEOUT": "30"}
    code, shown = srun(slurm, tmp_path, MEET, env)
    assert (code, ranks_lines(shown)) == (0, [f"{rank} 0 0 1 1 10.0" for rank in range(4)])


def test_nodes_may_have_unequal_numbers_of_ranks(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(MEET)
    words = ("--nodes=2", "--ntasks=3", "--distribution=block", sys.executable, str(tmp_path / "program.py"))
    code, shown = slurm.run("srun", *words, env=variables(slurm, PORT + 11))
    assert code == 0, shown
    lines = ranks_lines(shown)
    assert lines in ([f"{rank} {hosts} 6.0" for rank in range(3)] for hosts in ("0 0 1", "0 1 1"))


def test_a_descent_over_nodes_equals_one_process(slurm: Slurm, tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    a, b = random.standard_normal((40, 6)), random.standard_normal(40)
    np.savez(tmp_path / "given.npz", a=a, b=b)
    given = (str(tmp_path / "given.npz"), str(tmp_path))
    code, shown = srun(slurm, tmp_path, DESCENT, variables(slurm, PORT + 12), *given)
    assert code == 0, shown
    alone = np.zeros(6)
    for _ in range(50):
        alone -= 1e-3 * (a.T @ (a @ alone - b))
    found = [np.load(tmp_path / f"{rank}.npy") for rank in range(NODES * PER_NODE)]
    assert all(np.array_equal(found[0], x) for x in found)
    np.testing.assert_allclose(found[0], alone, rtol=1e-12)


def test_the_step_ends_with_the_first_rank_that_fails(slurm: Slurm, tmp_path: Path) -> None:
    code, shown = srun(slurm, tmp_path, FAIL, variables(slurm, PORT + 13))
    assert code != 0
    assert "task 3: Exited with exit code 7" in shown
    until(lambda: slurm.run("squeue", "-h")[1] == "")


def test_the_pages_batch_script(slurm: Slurm, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    script = str(ROOT / "examples/slurm/job.sh")
    words = ("sbatch", "--wait", "--chdir", str(ROOT), "--output", str(out), script)
    code, shown = slurm.run(*words, env={"PATH": python_path()})
    assert code == 0, shown + out.read_text()
    lines = sorted(line for line in out.read_text().splitlines() if line.startswith("rank"))
    assert lines == [f"rank {rank} of 8 has [28. 28. 28.]" for rank in range(8)]
