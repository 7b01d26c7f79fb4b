"""Random faults of ranks on several hosts, whose links and processes may stop, too: see tests/runtime/chaos."""

from __future__ import annotations

import os

import pytest

from tests.runtime.chaos.__main__ import MOST_MISNAMED_OVER_HOSTS
from tests.runtime.chaos.campaign import TIMEOUT_OVER_HOSTS_S, campaign
from tests.runtime.chaos.case import MOST_HOSTS, OF_A_HOST, Case, drawn_over_hosts
from tests.runtime.chaos.summary import Summary, failure
from tests.runtime.conftest import available
from tests.runtime.hosts.lab import missing

JOBS = 2
"""More cases at a time keep ranks of several threads from choosing their algorithms within the time limit."""


@pytest.fixture(autouse=True)
def needs() -> None:
    if not available("shm"):
        pytest.skip("the native engine is not built")
    if why := missing():
        pytest.skip(why)


@pytest.mark.parametrize("cases", [6, pytest.param(12, marks=pytest.mark.slow)])
def test_random_faults_over_hosts_hang_nobody_and_change_no_result(cases: int) -> None:
    first = int.from_bytes(os.urandom(4), "little")
    summary = Summary()
    for verdict in campaign([drawn_over_hosts(first + number) for number in range(cases)], JOBS, TIMEOUT_OVER_HOSTS_S):
        summary.add(verdict)
    assert not summary.failures(), summary.failures()
    assert len(summary.misnamed) <= MOST_MISNAMED_OVER_HOSTS * summary.errors, summary.misnamings()


@pytest.mark.parametrize("fault", OF_A_HOST)
def test_a_fault_of_a_host_is_named_by_the_others(fault: str) -> None:
    case = Case(0, 4, ("turns",), fault, 3, 0, at=5, delay_s=None, pause_s=0.1, leaves=False, layout=(2, 2))
    [verdict] = campaign([case], 1, TIMEOUT_OVER_HOSTS_S)
    assert not failure(verdict), failure(verdict)
    assert [(heard.rank, bool(heard.named & {2, 3})) for heard in verdict.heard] == [(0, True), (1, True)]


def test_a_campaign_has_every_number_of_hosts() -> None:
    cases = [drawn_over_hosts(seed) for seed in range(300)]
    assert {len(case.layout) for case in cases} == set(range(2, MOST_HOSTS + 1))
    assert all(sum(case.layout) == case.ranks for case in cases)
    assert {case.fault for case in cases} >= {*OF_A_HOST}
