"""The predicted time of a collective on a cluster, with one algorithm and one protocol."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """`latency_s` is the part of `time_s` that does not grow with the size; `bandwidth_Bps` the algorithm's bandwidth
    at length, in bytes of the collective a second (nccl-tests' algbw). `channels` run side by side at this size.
    `bottleneck`: the longest part of the time, in words."""

    algorithm: str
    protocol: str
    channels: int
    time_s: float
    latency_s: float
    bandwidth_Bps: float
    bottleneck: str
