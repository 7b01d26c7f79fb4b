"""The memory by which the ranks of a group on devices exchange messages, as csrc/device/program.h lays it out."""

from __future__ import annotations

import struct
from typing import NamedTuple

LANES = struct.Struct("=4i7q5Q")
_CALL = "=6Q2q3Q2i", "2i3qQ3iI2iQ"
CALL, PART_AT = struct.Struct("".join(_CALL)), struct.calcsize(_CALL[0])
"""A call, and the offset of its part in it: the first instruction, the one after the last, and the same of windows."""
STATUS, ENDED_IN_STATUS = struct.Struct("=4iI"), struct.calcsize("=4iI")
"""The end of a call; behind it in the host's memory, the number of those that have ended."""
PROGRAM = struct.Struct("=2q13iI2i")
DESCRIPTOR_BYTES, CREDIT_BYTES, COUNTERS_BYTES, TOLL_BYTES = 32, 16, 32, 128
MESSAGES_IN_LANE = 8
"""The flagged messages for which a lane has room."""
MOST_SLOTS = 512
REGISTER_WORDS = (512 * 16 + 512 * 16 + 256 * 8 + 256 * 4 + MOST_SLOTS * 4) // 8
ALIGNED = 1 << 12
STOP_AT, ENDED_AT = 1024, 1024 + 128
"""In a rank's own memory, behind the lanes' description: the word that ends waits, and the number of the last call that
has ended."""
NOWHERE = -1
REGION_SHIFT = 48
MOST_REGIONS = 1 << 12


class LaneLayout(NamedTuple):
    """A rank's memory that its peers reach, region 0: descriptors and flagged messages from each sender, credits from
    each receiver, and staging slots. `blocks`: the most thread blocks of a call; each has lanes of its own.
    `flagged_bytes`: of a flagged message at most, for each block; 0: there are none."""

    ranks: int
    blocks: int
    slots: int
    slot_bytes: int
    flagged_bytes: int

    @property
    def credits(self) -> int:
        """The offset of the credits."""
        return _aligned(self.ranks * self.blocks * self.slots * DESCRIPTOR_BYTES)

    @property
    def tolls(self) -> int:
        """The offset of the counts that streams wait for."""
        return self.credits + _aligned(self.ranks * self.blocks * CREDIT_BYTES)

    @property
    def flagged(self) -> int:
        """The offset of flagged messages: half of each of their words is the message's mark."""
        return self.tolls + _aligned(self.ranks * TOLL_BYTES)

    @property
    def staging(self) -> int:
        """The offset of the slots."""
        return self.flagged + _aligned(self.ranks * self.blocks * MESSAGES_IN_LANE * 2 * self.flagged_bytes)

    def flagged_lane(self, sender: int, block: int) -> int:
        """The offset of a block's flagged messages from a rank."""
        return self.flagged + (sender * self.blocks + block) * MESSAGES_IN_LANE * 2 * self.flagged_bytes

    @property
    def slot_stride(self) -> int:
        """Bytes from slot to slot: the blocks' parts of a message are whole runs of 64 elements."""
        return self.slot_bytes + _aligned(self.ranks * self.blocks * 64 * 16)

    @property
    def nbytes(self) -> int:
        """All of it."""
        return self.staging + self.slots * self.slot_stride


class OwnLayout(NamedTuple):
    """The offsets in a rank's own memory: the lanes' description, counters, what slots wait for, registers, and the
    table of regions."""

    lanes: LaneLayout

    @property
    def counters(self) -> int:
        """The offset of the counters, [block][rank]."""
        return ALIGNED

    @property
    def slot_until(self) -> int:
        """The offset of the words, [block][slot][rank], of what slots wait for."""
        return self.counters + _aligned(self.lanes.blocks * self.lanes.ranks * COUNTERS_BYTES)

    @property
    def registers(self) -> int:
        """The offset of the registers, [block]."""
        return self.slot_until + _aligned(self.lanes.blocks * self.lanes.slots * self.lanes.ranks * 4)

    @property
    def last_slot(self) -> int:
        """The offset of the last slots, [block]."""
        return self.registers + _aligned(self.lanes.blocks * REGISTER_WORDS * 8)

    @property
    def regions(self) -> int:
        """The offset of the table of addresses, [region][rank]."""
        return self.last_slot + _aligned(self.lanes.blocks * 4)

    @property
    def nbytes(self) -> int:
        """All of it."""
        return self.regions + _aligned(MOST_REGIONS * self.lanes.ranks * 8)

    def describe(self, rank: int, own: int, takes_turns: bool) -> bytes:
        """The lanes' description for a rank whose own memory begins at the address `own`. `takes_turns`: streams wait,
        not kernels."""
        lanes = self.lanes
        addresses = (self.regions, self.counters, self.slot_until, self.registers, self.last_slot)
        tolls = lanes.tolls if takes_turns else 0
        sizes = lanes.slot_stride, 0, lanes.credits, lanes.staging, tolls, lanes.flagged, lanes.flagged_bytes
        return LANES.pack(rank, lanes.ranks, lanes.blocks, lanes.slots, *sizes, *(own + at for at in addresses))


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNED) * ALIGNED
