"""Choice of algorithm for arrays in the memory of devices: the one with the least predicted time, which is not cut: a
device's blocks cut every chunk among them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ringtree.algorithms import build
from ringtree.ir.units import duration
from ringtree.plan.choice import NOTEWORTHY, kept
from ringtree.plan.nesting import NESTED
from ringtree.plan.tuning import CallTuning
from ringtree.price import seconds
from ringtree.price.devices import Devices


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """An algorithm and its tuning, with the reason for both as text."""

    algorithm: str
    steps: CallTuning
    why: str


def choose_on_devices(
    collective: str, devices: Devices, root: int | None, nbytes: int, rank_order: bool = False, balance: bool = False
) -> DeviceChoice:
    """Returns the algorithm for a call on a whole vector of `nbytes`; every rank must pass the same values.

    `rank_order` and `balance` as in `choose`. Cost: milliseconds for the first size between two powers of two."""
    return _choose(collective, devices, root, 1 << (nbytes - 1).bit_length() if nbytes else 0, rank_order, balance)


@lru_cache(maxsize=1024)
def _choose(
    collective: str, devices: Devices, root: int | None, nbytes: int, rank_order: bool, balance: bool
) -> DeviceChoice:
    steps = CallTuning(balanced=balance)
    found: list[tuple[float, str]] = []
    for name in kept(collective, len(devices.device_of), rank_order, balance):
        if name != NESTED:
            schedule = build(name, collective, len(devices.device_of), root)
            found.append((seconds(schedule, devices, nbytes), name))
    least_s = min(time_s for time_s, _ in found) or 1.0
    found.sort(key=lambda each: round(each[0] / least_s / NOTEWORTHY))  # among equals the first
    (best_s, best), *others = found
    beside = "".join(f", {duration(after_s)} for {after}" for after_s, after in others[:1])
    return DeviceChoice(best, steps, f"{duration(best_s)} predicted{beside}, by {devices.source}")
