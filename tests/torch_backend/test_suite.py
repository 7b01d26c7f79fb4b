"""A part of PyTorch's own suite, chosen for breadth; `make test-torch-suite` runs all of it beside Gloo."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest

from tests.torch_backend.suite.faces import IN_GLOOS_PLACE, RINGTREE
from tests.torch_backend.suite.outcomes import FAIL, PASS
from tests.torch_backend.suite.running import run

LIMIT_S = 60.0
MISSING = [name for name in ("expecttest", "psutil") if find_spec(name) is None]
pytestmark = pytest.mark.skipif(
    bool(MISSING) and os.environ.get("RINGTREE_TORCH_REQUIRED") != "1",
    reason=f"no {', '.join(MISSING)}, which PyTorch's suite needs: make test-torch installs it",
)

AS_GLOO = """
test_all_gather_coalesced_complex test_accumulate_gradients_no_sync_allreduce_with_then_hook
test_all_gather_coalesced_with_empty test_all_gather_object_subgroup test_all_reduce_coalesced_sum
test_all_reduce_complex_unsupported_ops test_all_reduce_sum_async test_all_reduce_sum_complex
test_barrier_timeout_full_group test_barrier_timeout_global test_batch_isend_irecv_gloo_tags
test_broadcast_full_group test_gather_checks test_get_future test_irecv test_isend_torch_profiler
test_monitored_barrier_gloo test_monitored_barrier_gloo_subgroup test_reduce_full_group_max test_scatter_checks
test_scatter_object_list test_send_recv_any_source_torch_profiler test_send_recv_with_tag test_sparse_all_reduce_sum
OnMultiProcContinuousTest
"""
OF_FOUR = "test_gather_object test_gather_object_subgroup test_new_subgroups_with_group_param"
"""Those that want more ranks than two, for which another server starts."""
BY_OUR_NAME = """
test_DistributedDataParallelCPU_grad_is_view test_ddp_create_graph test_ddp_logging_data_cpu test_static_graph_api_cpu
OnDTensorContinuousTestBase OnDTensorTestBase.test_redistribute OnFSDPTest.test_fsdp2_beside_one_process
OnFSDPTestContinuous OnShardedTensorTestBase.test_gather
"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("face", "tests"),
    [
        pytest.param(IN_GLOOS_PLACE, AS_GLOO, id="as Gloo"),
        pytest.param(IN_GLOOS_PLACE, OF_FOUR, id="of four", marks=pytest.mark.slow),
        pytest.param(RINGTREE, BY_OUR_NAME, id="by our name"),
    ],
)
def test_it_passes(face: str, tests: str) -> None:
    outcomes = list(run(face, tests.split(), LIMIT_S))
    assert len(outcomes) == len(tests.split())
    assert not "\n\n".join(f"{outcome.name}: {outcome.reason}" for outcome in outcomes if outcome.status != PASS)


NOTICED = {
    "Probe.test_makes_a_group_of_gloo": "a group of Gloo's is made in a test on ringtree",
    "Probe.test_has_a_thread_of_gloo": "a thread of Gloo's was seen",
    "Probe.test_hangs": "did not end within 10 s",
    "Probe.test_a_rank_dies_at_its_end": "the ranks ended with the exit codes [0, -9]",
}


@pytest.mark.slow
def test_failures_that_a_test_hides_are_noticed() -> None:
    outcomes = list(run(RINGTREE, list(NOTICED), 10.0))
    assert [outcome.status for outcome in outcomes] == [FAIL] * len(NOTICED)
    assert all(NOTICED[outcome.name] in outcome.reason for outcome in outcomes)
