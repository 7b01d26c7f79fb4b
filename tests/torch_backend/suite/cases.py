"""All tests that are run, by name: "test_..." of the suite itself, "Class" or "Class.test_..." on other harnesses.

`faces.put_on` comes before the import of this.
"""

from __future__ import annotations

import unittest

from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend

from tests.torch_backend.suite import harnesses, probes
from tests.torch_backend.suite.ranks import Forked


class DistributedSuite(Forked, TestDistBackend, DistributedTest._DistTestBase):
    def setUp(self) -> None:
        super().setUp()
        self._spawn_processes()


def names() -> list[str]:
    """A class whose tests share one world counts as one."""
    load = unittest.defaultTestLoader
    found = list(load.getTestCaseNames(DistributedSuite))
    for name, harness in vars(harnesses).items():
        if name.startswith("On"):
            each = [f"{name}.{test}" for test in load.getTestCaseNames(harness)]
            found += each if issubclass(harness, Forked) else [name]
    return found


def load(name: str) -> unittest.TestSuite:
    if name.startswith("test_"):
        return unittest.TestSuite([DistributedSuite(name)])
    found = unittest.defaultTestLoader.loadTestsFromName(name, probes if name.startswith("Probe") else harnesses)
    return found if isinstance(found, unittest.TestSuite) else unittest.TestSuite([found])
