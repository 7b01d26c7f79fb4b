"""The names that `import ringtree` offers, and its cost."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import ringtree

PUBLIC = [
    "ANY",
    "Communicator",
    "Mismatch",
    "Op",
    "PeerDied",
    "Poisoned",
    "Pool",
    "RankFailed",
    "TimedOut",
    "Work",
    "__version__",
    "balanced_sum",
    "init",
    "join",
    "scaled",
    "spawn",
    "wait_all",
    "wait_any",
]


def test_the_public_names_are_these() -> None:
    assert ringtree.__all__ == PUBLIC
    assert len(PUBLIC) <= 20
    for name in PUBLIC:
        assert getattr(ringtree, name) is not None
    assert set(PUBLIC) <= set(dir(ringtree))


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'spam'"):
        _ = ringtree.spam


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_loads_nothing_but_ringtree_itself() -> None:
    output = python(
        "import sys; before = set(sys.modules); import ringtree; "
        "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names)))"
    )
    assert output == "ringtree"


def test_a_world_loads_numpy_and_nothing_else_of_others() -> None:
    output = python(
        "import sys, ringtree; comm = ringtree.init(); import numpy; comm.all_reduce(numpy.ones(3)); comm.barrier(); "
        "print(*sorted({m.split('.')[0] for m in sys.modules} - set(sys.stdlib_module_names)))"
    )
    others = {name for name in output.split() if not name.startswith("_") and name not in ("sitecustomize", "__main__")}
    assert others <= {"ringtree", "numpy"}, others


def test_importing_loads_one_file_of_ours() -> None:
    assert (
        python("import sys, ringtree; print(*(m for m in sys.modules if m.split('.')[0] == 'ringtree'))") == "ringtree"
    )


FIRST_CALL = """
import sys, numpy, ringtree
comm = ringtree.init()
comm.all_reduce(numpy.ones(3))
print(*(m for m in sys.modules if m.startswith("ringtree.")))
comm.barrier()
"""


def test_one_rank_of_a_job_loads_planner_and_prover() -> None:
    job = os.environ | {"RINGTREE_JOB": f"loads-{os.getpid()}", "RINGTREE_WORLD_SIZE": "3"}
    command = [sys.executable, "-c", FIRST_CALL]
    environments = [job | {"RINGTREE_RANK": str(rank)} for rank in range(3)]
    ranks = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for env in environments]
    loaded = [set(rank.communicate(timeout=60)[0].split()) for rank in ranks]
    assert not any(rank.returncode for rank in ranks)
    assert sum("ringtree.plan.choice" in modules for modules in loaded) == 1
    for modules in loaded:
        assert "ringtree.runtime.communicator.communicator" in modules
        late = "price.pricing", "topology.graph", "runtime.tracing.parts", "runtime.bootstrap.network.hosts"
        assert not modules & {f"ringtree.{module}" for module in late}
    assert sum("ringtree.verify.schedules" in modules for modules in loaded) <= 1


def test_rank_failed_travels() -> None:
    import pickle

    error = pickle.loads(pickle.dumps(ringtree.RankFailed("rank 1 failed", 1)))
    assert (str(error), error.rank) == ("rank 1 failed", 1)


def test_peer_died_has_message_and_rank() -> None:
    error = ringtree.PeerDied("rank 3 ended", 3)
    assert str(error) == "rank 3 ended"
    assert error.args[1] == 3
