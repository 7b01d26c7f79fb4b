"""Calls on arrays in a device's memory that look like earlier ones: one native call up to the launch, where the program
was launched before, on the stream of the last launch, and nothing has failed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringtree.runtime.engines.device.plan import DevicePlan
from ringtree.runtime.engines.device.processor import DeviceProcessor
from ringtree.runtime.engines.engine import native_module
from ringtree.runtime.engines.on_host import OnHost


class RepeatedCalls(OnHost):
    """The fast path of an endpoint, and what is counted of its calls. What runs the plans is built on it."""

    def __init__(self, host: Any, processor: DeviceProcessor, ranks: int) -> None:
        super().__init__(host)
        self._processor, self._native = processor, processor.native
        self._native.attach(host)
        self.call, self.call_shaped, self.start_call = (
            self._native.call,
            self._native.call_shaped,
            self._native.start_call,
        )
        self._plans: dict[int, DevicePlan] = {}
        self._launched = set[int]()  # plans that native calls may launch again
        self._calls = 0
        self._counted = np.zeros((ranks, 2), np.int64)

    @property
    def calls(self) -> int:
        """Collective calls made so far."""
        return self._calls + int(self._native.runs)

    @property
    def native_calls(self) -> int:
        """The number of them that Python had no part in."""
        return int(self._native.runs)

    def door(self, host: Any) -> Any:
        """The fast path of a group of the same ranks on the host, through which this one is called where arrays are in
        a device's memory; None where that group has none that is native."""
        native = native_module()
        return native.DeviceDoor(host, self._native) if type(host) is native.Group else None

    def run(self, plan: int, input: int, output: int) -> None:
        """As Group.run."""
        raise NotImplementedError

    def start(self, plan: int, input: int, output: int) -> int:
        """As Group.start."""
        raise NotImplementedError

    def _launch(self, number: int, plan: DevicePlan, call: bytes) -> None:
        """Launches a program, as native calls do from now on."""
        self._calls += 1
        self._native.text = plan.text
        self._processor.launch(call, plan)
        self._counted += plan.code.received
        if plan.native and number not in self._launched:
            self._launched.add(number)
            kernel = self._processor.kernel(plan.types, plan.flagged)
            self._native.launched(number, call, kernel, plan.threads, *plan.extents, plan.text, plan.announced)

    def forget(self, plan: int) -> None:
        """As Group.forget."""
        self._count()
        self._native.forget(plan)
        self._launched.discard(plan)
        self.host.forget(self._plans.pop(plan).announced)

    def remember(
        self,
        collective: int,
        format: str,
        dtype: int,
        op: str,
        root: int,
        in_count: int,
        out_count: int,
        plan: int,
        offset: int | None = 0,
    ) -> None:
        """As Group.remember."""
        self._native.remember(collective, format, dtype, op, root, in_count, out_count, plan, offset)

    def remember_barrier(self, plan: int) -> None:
        """As Group.remember_barrier; a barrier is a call like any other here."""

    def call_barrier(self) -> bool:
        """As Group.call_barrier."""
        return False

    def call_at(
        self, collective: int, dtype: int, op: Any, root: int, x: int, x_count: int, out: int, out_count: int
    ) -> bool:
        """As Group.call_at."""
        plan: int = self._native.find_at(collective, dtype, op, root, x, x_count, out, out_count)
        if plan:
            self.run(plan, x, out)
        return plan > 0

    def start_at(
        self, collective: int, dtype: int, op: Any, root: int, x: int, x_count: int, out: int, out_count: int
    ) -> int:
        """As Group.start_at."""
        plan = self._native.find_at(collective, dtype, op, root, x, x_count, out, out_count)
        return self.start(plan, x, out) if plan else 0

    def counters(self) -> NDArray[np.int64]:
        """As Group.counters."""
        self._count()
        total: NDArray[np.int64] = self.host.counters() + self._counted
        return total

    def reset_counters(self) -> None:
        """As Group.reset_counters."""
        self._count()
        self.host.reset_counters()
        self._counted[:] = 0

    def _count(self) -> None:
        """Counts what native calls have received."""
        for plan, runs in self._native.taken_runs():
            self._counted += self._plans[plan].code.received * runs


__all__ = ["RepeatedCalls"]
