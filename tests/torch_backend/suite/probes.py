"""Tests that must fail: what the driver has to notice, and a test's own report lacks."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time

import torch.distributed as dist
from torch.testing._internal.common_distributed import MultiProcessTestCase

from tests.torch_backend.suite.ranks import Forked

PR_SET_NAME = 15


class Probe(Forked, MultiProcessTestCase):
    world_size = 2

    def setUp(self) -> None:
        super().setUp()
        self._spawn_processes()

    def test_makes_a_group_of_gloo(self) -> None:
        where = f"file://{self.file_name}"
        dist.init_process_group("cpu:gloo", world_size=self.world_size, rank=self.rank, init_method=where)

    def test_has_a_thread_of_gloo(self) -> None:
        """As a group that C++ had made would."""

        def named() -> None:
            ctypes.CDLL(None).prctl(PR_SET_NAME, b"pt_gloo_runloop", 0, 0, 0)
            time.sleep(1.5)

        thread = threading.Thread(target=named)
        thread.start()
        thread.join()

    def test_hangs(self) -> None:
        signal.pause()

    def test_a_rank_dies_at_its_end(self) -> None:
        if self.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
