"""The native object behind calls on devices, by itself: how it launches, and where it leaves a call to Python."""

from __future__ import annotations

import threading
from collections.abc import Callable
from ctypes import (
    CFUNCTYPE,
    POINTER,
    addressof,
    c_int,
    c_uint,
    c_uint32,
    c_void_p,
    cast,
    create_string_buffer,
    string_at,
)
from typing import Any

import numpy as np
import pytest

from ringtree import _native
from ringtree.runtime.engines.device.lanes import CALL, NOWHERE, REGION_SHIFT
from ringtree.runtime.types import Dtype

LAUNCH = CFUNCTYPE(c_int, c_void_p, *[c_uint] * 7, c_void_p, POINTER(c_void_p), POINTER(c_void_p))
OUTCOME, ENDED = 0, 5
"""Words of the memory that calls write."""
X, OUT = np.zeros(4), np.zeros(4)


class Device:
    """What stands in a device's place: it notes what is launched."""

    def __init__(self, refuses: bool = False) -> None:
        self.memory = create_string_buffer(4096)
        self.words = cast(self.memory, POINTER(c_uint32))
        self.launched: list[Any] = []
        self.refuses = refuses
        self._function = LAUNCH(self._launch)
        begin = addressof(self.memory)
        launch: int = cast(self._function, c_void_p).value or 0
        self.calls = _native.DeviceCalls(2, begin, launch_kernel=launch)

    def _launch(self, kernel: int, *rest: Any) -> int:
        *sizes, stream, arguments, _ = rest
        self.launched.append((kernel, sizes, stream, CALL.unpack(string_at(arguments[0], CALL.size))))
        if not self.refuses:
            self.words[ENDED] += 1
        return int(self.refuses)

    def know(self, offset: int | None = 0) -> None:
        """Of calls of four float64, plan 7 is known, and was launched."""
        self.calls.remember(0, "d", int(Dtype.FLOAT64), "sum", -1, 4, 4, 7, offset)
        call = CALL.pack(11, 12, 30, 13, 14, 15, 16, 17, 18, 19, 20, 21, 3, 0, 5, 0, 1, 2, 22, 23, 1, 2, 0, 0, 0, 24)
        self.calls.launched(7, call, 0xABC, 64, 32, 32, "a call")

    def call(self, x: Any = X, out: Any = OUT) -> bool:
        return self.calls.call(0, x, out, "sum", -1)


def address(x: Any) -> int:
    return int(x.__array_interface__["data"][0])


def test_a_known_plan_is_launched_on_other_arrays() -> None:
    device = Device()
    device.know()
    device.calls.limit_ns = 77
    device.calls.add_region(address(OUT), address(OUT) + 32, 6)
    assert device.call()
    where = (address(X), address(OUT), 15, NOWHERE, 6 << REGION_SHIFT, 77)
    call = (
        11,
        12,
        30,
        *where,
        19,
        20,
        0,
        3,
        0,
        5,
        0,
        1,
        2,
        22,
        23,
        7,
        2,
        1,
        0,
        0,
        24,
    )  # the first, with the region that came since
    assert device.launched == [(0xABC, [3, 1, 1, 64, 1, 1, 0], None, call)]
    assert device.calls.launches == device.calls.runs == 1 and device.calls.idle and device.calls.text == "a call"
    assert device.calls.taken_runs() == [(7, 1)] and device.calls.taken_runs() == []


def test_arrays_that_are_one_are_launched_as_such() -> None:
    device = Device()
    device.know()
    assert device.call(X, X) and device.call()
    assert [call[11] for *_, call in device.launched] == [1, 0]


def test_places_are_those_of_the_region_around() -> None:
    calls = Device().calls
    for begin, number in ((3000, 2), (1000, 0), (2000, 1)):
        calls.add_region(begin, begin + 100, number)
    found = [calls.place(at) for at in (999, 1000, 1099, 1100, 2050, 3099, 3100)]
    assert found == [NOWHERE, 0, 99, NOWHERE, 1 << REGION_SHIFT | 50, 2 << REGION_SHIFT | 99, NOWHERE]


ODD: dict[str, Callable[[Device], object]] = {
    "the plan was not launched": lambda d: (d.calls.forget(7), d.calls.remember(0, "d", 0, "sum", -1, 4, 4, 7)),
    "the plan is forgotten": lambda d: d.calls.forget(7),
    "a call has failed": lambda d: d.words.__setitem__(OUTCOME, 1),
    "the group has failed": lambda d: setattr(d.calls, "stopped", True),
    "a call is queued": lambda d: d.calls.queue(1),
    "it is closed": lambda d: d.calls.close(),
}


@pytest.mark.parametrize("why", list(ODD))
def test_nothing_is_launched_where(why: str) -> None:
    device = Device()
    device.know()
    ODD[why](device)
    assert not device.call() and device.calls.call_shaped(0, X, None, "sum", -1, 0) is None
    assert device.launched == [] and device.calls.launches == 0


@pytest.mark.parametrize(
    ("x", "out"),
    [
        (X[:3], OUT[:3]),
        (X.astype(np.float32), OUT.astype(np.float32)),
        (X, np.frombuffer(bytes(32))),
        (np.zeros(8)[::2], OUT),
        ([0.0] * 4, OUT),
        (X, None),
    ],
)
def test_other_arrays_are_left_alone(x: Any, out: Any) -> None:
    device = Device()
    device.know()
    assert not device.call(x, out) and device.launched == []


def test_arrays_that_overlap_are_launched_where_the_plan_allows_it() -> None:
    both = np.zeros(6)
    for offset, begins in ((0, [0]), (1, [1]), (None, list[int]())):
        device = Device()
        device.know(offset)
        assert [k for k in range(3) if device.call(both[k : k + 4], both[:4])] == begins


def test_a_launch_that_the_driver_refuses_is_not_counted() -> None:
    device = Device(refuses=True)
    device.know()
    assert not device.call() and len(device.launched) == 1
    assert device.calls.launches == device.calls.runs == 0 and device.calls.idle


def test_who_waits_for_a_launch_is_woken_by_it_and_at_the_end() -> None:
    device = Device()
    device.know()
    device.words[ENDED] = 0xFFFFFFFF  # it never looks as if all had ended
    device.calls.launches = 0xFFFFFFFF
    waiter = threading.Thread(target=device.calls.await_launch)
    waiter.start()
    device.refuses = True
    device.calls.launches += 1
    waiter.join(10)
    assert not waiter.is_alive()
    device.words[ENDED] = 0  # 2^32 launches
    assert device.calls.idle
    waiter = threading.Thread(target=device.calls.await_launch)
    waiter.start()
    device.calls.end_awaiting()
    waiter.join(10)
    assert not waiter.is_alive()


def test_a_device_needs_a_function_that_launches() -> None:
    with pytest.raises(ValueError, match="no function that launches on a device"):
        _native.DeviceCalls(2, 0, device=0)


def test_a_door_leads_arrays_of_the_host_to_its_group() -> None:
    from tests.runtime.engines.native_world import endpoint, segment

    device = Device()
    device.know()
    with segment(1) as fd:
        group = endpoint(fd, 0, 1)
        door = _native.DeviceDoor(group, device.calls)
        assert not door.call(0, X, OUT, "sum", -1) and door.call_shaped(0, X, OUT, "sum", -1, 0) is None
        assert door.start_call(0, X, OUT, "sum", -1) == 0 and device.launched == []
        with pytest.raises(TypeError, match="expected 5 arguments, got 1"):
            door.call(0)
        group.close()
    with pytest.raises(TypeError):
        _native.DeviceDoor(device.calls, device.calls)
