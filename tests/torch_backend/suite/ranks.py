"""A test's ranks: processes forked from one that has imported torch and the suite, where theirs import both again."""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import json
import os
import signal
import sys
from multiprocessing.context import ForkProcess
from typing import Any

from torch.testing._internal import common_distributed
from torch.testing._internal.common_distributed import TEST_SKIPS, MultiProcessTestCase

from tests.runtime.hosts.lab import enter_all

HOSTS = "SUITE_HOSTS"
"""The variable with the namespaces of each host, where a test's ranks take turns on the hosts of a lab."""
TOLD_TO_DUMP = signal.SIGUSR1
"""The signal on which a process of a test writes its stack."""


class RankProcess(ForkProcess):
    """A rank that ends as a program does, with what Python and C++ do at exit, all but taking the interpreter apart,
    which takes a second. multiprocessing's own children just end."""

    def run(self) -> None:
        if hosts := json.loads(os.environ.get(HOSTS, "[]")):
            enter_all(hosts[self._args[0] % len(hosts)])  # the first argument of all is the rank
        faulthandler.register(TOLD_TO_DUMP)
        if common_distributed.tmp_dir is not None:
            common_distributed.tmp_dir._finalizer.detach()  # the test's, which other ranks may still need
        code = 1
        try:
            super().run()
            code = 0
        except SystemExit as exit:
            code = exit.code if isinstance(exit.code, int) else int(exit.code is not None)
        except BaseException:  # noqa: BLE001  # as the interpreter does
            sys.excepthook(*sys.exc_info())
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        ctypes.PyDLL(None).exit(code)


class Forked(MultiProcessTestCase):
    """Before a class of theirs: how its ranks are made, and that each of them must end well."""

    def _spawn_processes(self) -> None:
        self._start_processes(RankProcess)

    def _check_return_codes(self, test: Any, took_s: float) -> None:
        """Theirs looks at the first rank's only."""
        codes = [process.exitcode for process in self.processes]
        expected = {None, 0, self.TEST_ERROR_EXIT_CODE, *(skip.exit_code for skip in TEST_SKIPS.values())}
        if test not in self.skip_return_code_checks and not expected.issuperset(codes):
            raise RuntimeError(f"the ranks ended with the exit codes {codes}")
        super()._check_return_codes(test, took_s)
