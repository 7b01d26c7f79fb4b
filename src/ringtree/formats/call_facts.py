"""The facts of a file that bear on its calls, beside the schedule: by which protocol, of which sizes, over how much."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

Facts = Mapping[str, str | int]

ROOM = {"simple": 2, "ll": 8, "ll128": 8}
"""Messages that a connection of MSCCL's runtimes holds, by protocol: of the 8 steps of its buffer, Simple takes 4 a
message, and the others 1."""
_PLAIN: dict[str, str | int | None] = {
    "proto": "Simple",
    "minBytes": 0,
    "maxBytes": 0,
    "nchannels": 1,
    "redop": None,
    "protocol": "Simple",
    "reuse_resources": False,
    "use_double_scratch_buffer": False,
    "num_threads_per_block": 1024,
    "buffer_alignment": 16,
    "min_message_size": 0,
    "max_message_size": 2**64 - 1,
}
"""Facts by the formats' names, each with the value that a file without it has."""


def lacks_room(facts: Facts, slots: int) -> str:
    """Why a connection has no room for the messages that a program needs at once, in words; "" where it has, and for
    other formats than MSCCL's."""
    if facts.get("format") != "MSCCL XML":
        return ""
    protocol = str(facts.get("proto", _PLAIN["proto"]))
    room = ROOM.get(protocol.lower(), slots)
    return f"a connection must hold {slots} messages, and {protocol} has room for {room}" if slots > room else ""


def not_kept(facts: Facts, written: Facts) -> str:
    """The facts of a file that differ from those of the one written from it, in words; "" where there is none."""
    return ", ".join(_different(facts, written))


def _different(facts: Facts, written: Facts) -> Iterator[str]:
    for name, plain in _PLAIN.items():
        value, now = facts.get(name), written.get(name, plain)
        if value is not None and str(value).lower() != str(now).lower():
            yield f"{name} {value}" + (f" (now {written[name]})" if name in written else "")
