"""The tags of messages that have a meaning of their own, on every engine."""

from __future__ import annotations

ANY = -1
"""Any source, any tag."""

COPY, PARTS, CLOCKS = -2, -3, -4
"""Tags that no receive of a user's takes: of `copy`, of `exchange_parts`, and of the reading of other hosts' clocks."""
FREE = -5
"""The first of such tags, downwards, for layers on a communicator."""

ACKNOWLEDGEMENT = -(1 << 31)
"""The tag of what answers a synchronous send of tag 0; of tag t it is t more. Such sends have tags below 2^30."""
