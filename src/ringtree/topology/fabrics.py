"""The networks between machines, by name: what is left of a NIC's line rate, and what a message costs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fabric:
    """`rdma`: the NIC reads and writes memory itself, no kernel in between. `gdr`: it can be the GPU's memory.
    `payload` is the share of the line rate that is left for data; `latency_s` from NIC to NIC through one switch;
    `message_s` what a sender's CPU has with each message; `hop_s` what each further switch adds."""

    name: str
    rdma: bool
    gdr: bool
    payload: float
    latency_s: float
    message_s: float
    hop_s: float
    source: str


# The figures and their sources: A's first delivery fills and checks these.
FABRICS: dict[str, Fabric] = {}
