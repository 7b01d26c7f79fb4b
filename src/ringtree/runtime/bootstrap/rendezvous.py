"""How ranks on one machine meet: the leader hands every member the same shared memory.

The place is an abstract unix socket, whose name comes from the user's id and a text that all members derive alike; it
vanishes with the socket, so nothing can leak. The memory is a memfd, which has no name at all. That the members are on
one machine, and are the same user's, is thus proved by the handshake and not guessed. Groups, sub-groups and symmetric
memory all meet here.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import select
import selectors
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ringtree.errors import Mismatch, PeerDied, Poisoned

_LETTER_BYTES = 1 << 18

LOOK_S = 0.1
"""How often one who waits looks whether the others live."""

VISIT_S = 0.02
"""How long one who came before the leader sleeps, unless the leader rings."""

GRACE_S = 1.0
"""How long a leader that gives up stays to tell those who come later why."""

MARGIN_BYTES = 64 << 20
"""Left to others when memory is reserved."""

CGROUP_FILES = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
"""Limit and usage of this container's memory, by either version of control groups."""


@dataclass(frozen=True, slots=True)
class Party:
    """Who meets, and what about. Member 0 leads. `subject` says what for, in words: all members must say the same.
    `look` is called now and then while waiting, with the members that are known not to have come, and raises when it is
    in vain. `build`: of the engine that will share the memory; that of another build may lay it out in another way."""

    place: str
    member: int
    members: int
    names: Sequence[str]
    subject: str
    timeout_s: float
    look: Callable[[list[int]], None] | None = None
    build: str = ""

    def named(self, members: Sequence[int]) -> str:
        """`rank 3`, or `ranks 1, 3`: members by the names that users know them by."""
        names = [self.names[m] for m in members]
        return f"rank {names[0]}" if len(names) == 1 else f"ranks {', '.join(names)}"


def meet(party: Party, nbytes: int, offer: Any = None, reserved: int | None = None) -> tuple[int, list[Any]]:
    """Waits until all members are here; returns a descriptor (the caller's own) of `nbytes` zeroed bytes of shared
    memory, and what each member offered (anything JSON can say), in order of members. `reserved`: how many of the bytes
    exist; all of them if it is None.

    Raises TimeoutError naming who is missing, RuntimeError for a member that contradicts the others, MemoryError when
    the machine has no room.
    """
    address = _address(party.place)
    deadline = time.monotonic() + party.timeout_s
    if party.member == 0:
        return _lead(party, address, (nbytes, nbytes if reserved is None else reserved), offer, deadline)
    return _follow(party, address, offer, deadline)


def _address(place: str) -> str:
    """The abstract socket's name: no other user's, and short whatever the job is called."""
    digest = hashlib.sha256(place.encode()).hexdigest()[:32]
    return f"\0ringtree-{os.getuid()}-{digest}"


def reserve(nbytes: int, what: str, whole: int = 0) -> int:
    """A memfd whose first `nbytes` exist: a later write cannot end the process for want of memory. It is `whole` bytes
    long where that is more."""
    if nbytes > (room := memory_available_bytes()):
        raise _no_room(nbytes, what, f"{room} are available")
    fd = os.memfd_create("ringtree", os.MFD_CLOEXEC)
    try:
        os.ftruncate(fd, max(nbytes, whole))
        if nbytes:
            os.posix_fallocate(fd, 0, nbytes)
    except OSError as error:
        os.close(fd)
        if error.errno in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG):
            raise _no_room(nbytes, what, os.strerror(error.errno)) from None
        raise
    return fd


def memory_available_bytes() -> int:
    """What this process may still take, less a margin for others. Nothing else refuses a memfd that is too large: where
    memory itself is the limit, its pages are handed out until the kernel ends processes."""
    bounds = []
    with contextlib.suppress(OSError, StopIteration, ValueError):
        with open("/proc/meminfo") as lines:
            line = next(line for line in lines if line.startswith("MemAvailable:"))
        bounds.append(int(line.split()[1]) * 1024)
    for limit, used in CGROUP_FILES:
        # no such control group, or "max": no limit
        with contextlib.suppress(OSError, ValueError), open(limit) as most, open(used) as now:
            bounds.append(int(most.read()) - int(now.read()))
    return min(bounds) - MARGIN_BYTES if bounds else sys.maxsize


def _no_room(nbytes: int, what: str, why: str) -> MemoryError:
    return MemoryError(f"no room for {nbytes} bytes of shared memory ({what}): {why}; free memory or raise its limit")


def _lead(party: Party, address: str, sizes: tuple[int, int], offer: Any, deadline: float) -> tuple[int, list[Any]]:
    whole, reserved = sizes
    fd, guests = -1, dict[int, socket.socket]()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
            _open(door, party, address, deadline)
            _ring(party)
            try:
                fd = reserve(reserved, party.subject, whole)
                offers = _Reception(party, door, guests, deadline).receive()
            except Exception as error:
                refusal = {"refused": str(error), "kind": type(error).__name__}
                _tell(guests, refusal)
                if isinstance(error, (PeerDied, Mismatch, Poisoned)):  # what look() said; the others see it themselves
                    raise
                if party.look:
                    party.look([])
                _turn_away(door, party.members - 1 - len(guests), refusal)
                raise
            offers[0] = offer
            everyone = [offers[m] for m in range(party.members)]
            if dead := _tell(guests, {"offers": everyone, "build": party.build}, fd):
                raise RuntimeError(f"{party.named(dead)} ended while {party.subject} was being set up")
        return fd, everyone
    except BaseException:
        if fd >= 0:
            os.close(fd)
        raise
    finally:
        for guest in guests.values():
            guest.close()


def _open(door: socket.socket, party: Party, address: str, deadline: float) -> None:
    """Takes the place. It may be taken by another's meeting of this name that is about to end."""
    while True:
        try:
            door.bind(address)
            door.listen(party.members)
            return
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"two processes say they are {party.named([0])} of {party.subject}: start each rank once, "
                    "and every job with a key of its own"
                ) from None
            time.sleep(0.01)


class _Reception:
    """The leader's side: takes members in until all are here, or one of them cannot be."""

    def __init__(self, party: Party, door: socket.socket, guests: dict[int, socket.socket], deadline: float) -> None:
        self.party, self.door, self.guests, self.deadline = (party, door, guests, deadline)
        self.offers: dict[int, Any] = {}

    def receive(self) -> dict[int, Any]:
        with selectors.DefaultSelector() as selector:
            selector.register(self.door, selectors.EVENT_READ)
            while len(self.guests) < self.party.members - 1:
                left = self.deadline - time.monotonic()
                if left <= 0:
                    missing = [m for m in range(1, self.party.members) if m not in self.guests]
                    raise TimeoutError(
                        f"{self.party.named(missing)} did not come to {self.party.subject} "
                        f"within {self.party.timeout_s:g} s"
                    )
                if self.party.look:
                    self.party.look([m for m in range(1, self.party.members) if m not in self.guests])
                for key, _ in selector.select(min(left, LOOK_S)):
                    if key.fileobj is self.door:
                        self._admit(selector)
                    else:
                        self._lost(key.data)
        return self.offers

    def _admit(self, selector: selectors.BaseSelector) -> None:
        guest, _ = self.door.accept()
        if _uid(guest) != os.getuid():  # somebody else's: no member, whatever it says
            guest.close()
            return
        guest.settimeout(max(self.deadline - time.monotonic(), 0.01))
        try:
            said = guest.recv(_LETTER_BYTES)
        except OSError:
            said = b""
        if not said:
            guest.close()
            return
        hello = json.loads(said)
        member = hello["member"]
        if member in self.guests or not 0 < member < hello["members"]:
            _refuse(guest, f"two processes say they are rank {hello['name']} of {self.party.subject}")
        if hello["members"] != self.party.members:
            _refuse(
                guest,
                f"rank {hello['name']} says there are {hello['members']} ranks, {self.party.named([0])} says "
                f"{self.party.members}, in {self.party.subject}",
            )
        if hello["subject"] != self.party.subject:
            _refuse(
                guest,
                f"ranks disagree: rank {hello['name']} came for {hello['subject']}, "
                f"{self.party.named([0])} for {self.party.subject}",
            )
        if why := _other_build(hello.get("build", ""), hello["name"], self.party):
            _refuse(guest, why)
        self.guests[member] = guest
        self.offers[member] = hello["offer"]
        selector.register(guest, selectors.EVENT_READ, member)

    def _lost(self, member: int) -> None:
        raise RuntimeError(f"{self.party.named([member])} ended while {self.party.subject} was being set up")


def _other_build(theirs: str, name: str, party: Party) -> str:
    """Why the one of that name cannot share memory with this member; "" where it can. Builds that know no builds
    say none."""
    if theirs == party.build:
        return ""
    return (
        f"rank {name} runs build {theirs or 'unknown'} of ringtree's engine, rank {party.names[party.member]} build "
        f"{party.build}, in {party.subject}: start every rank from the same installation"
    )


def _refuse(guest: socket.socket, why: str) -> None:
    """Tells the one who does not fit, and (by raising) all the others."""
    _tell({0: guest}, {"refused": why, "kind": "RuntimeError"})
    guest.close()
    raise RuntimeError(why)


def _turn_away(door: socket.socket, missing: int, refusal: dict[str, Any]) -> None:
    """Tells those who are still on their way, for as long as that is likely to be."""
    until = time.monotonic() + GRACE_S
    while missing > 0 and (left := until - time.monotonic()) > 0:
        door.settimeout(left)
        with contextlib.suppress(OSError):
            guest, _ = door.accept()
            with guest:
                guest.settimeout(left)
                guest.recv(_LETTER_BYTES)
                _tell({0: guest}, refusal)
            missing -= 1


def _tell(guests: dict[int, socket.socket], what: dict[str, Any], fd: int = -1) -> list[int]:
    """Sends everyone the same, with the descriptor where there is one; returns those who are gone."""
    gone = []
    text = json.dumps(what).encode()
    for member, guest in sorted(guests.items()):
        try:
            if fd < 0:
                guest.send(text)
            else:
                socket.send_fds(guest, [text], [fd])
        except OSError:
            gone.append(member)
    return gone


REFUSALS = {"TimeoutError": TimeoutError, "MemoryError": MemoryError}
"""What a leader gave up with, as it is raised by those it tells."""


def _follow(party: Party, address: str, offer: Any, deadline: float) -> tuple[int, list[Any]]:
    hello = {
        "member": party.member,
        "members": party.members,
        "name": party.names[party.member],
        "subject": party.subject,
        "offer": offer,
        "build": party.build,
    }
    text = json.dumps(hello).encode()
    answer = _visit(party, address, text, deadline)
    if answer is None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
            with contextlib.suppress(OSError):  # somebody else says to be this member: it then goes without
                bell.bind(_bell(party.place, party.member))
            while (answer := _visit(party, address, text, deadline)) is None:
                _sleep(party, bell, deadline)
    said, fd = answer
    if "refused" in said:
        if party.look:
            party.look([])  # what made the leader give up, as this member's own error
        raise REFUSALS.get(said["kind"], RuntimeError)(said["refused"])
    if why := _other_build(said.get("build", ""), party.names[0], party):
        os.close(fd)
        raise RuntimeError(why)
    return fd, said["offers"]


def _bell(place: str, member: int) -> str:
    return _address(f"{place}, bell {member}")


def _ring(party: Party) -> None:
    """Wakes those who came before the leader. They hung their bells up first, and then looked once more for the door:
    none of them can miss it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hand:
        for member in range(1, party.members):
            with contextlib.suppress(OSError):  # that one comes later
                hand.sendto(b"open", socket.MSG_DONTWAIT, _bell(party.place, member))


def _sleep(party: Party, bell: socket.socket, deadline: float) -> None:
    """Until the leader rings, or for a while, after which it is asked whether that is in vain."""
    if select.select([bell], [], [], VISIT_S)[0]:
        bell.recv(16)
        return
    if party.look:
        party.look([0])
    if time.monotonic() > deadline:
        raise TimeoutError(
            f"{party.named([0])} did not come to {party.subject} within {party.timeout_s:g} s "
            f"(waited for by {party.named([party.member])})"
        )


def _visit(party: Party, address: str, hello: bytes, deadline: float) -> tuple[dict[str, Any], int] | None:
    """Says hello and waits for the answer; None where nobody is there (yet), or who was there did not open."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        # the leader gives up first, and says why: its answer is worth a little more patience
        door.settimeout(max(deadline - time.monotonic(), 0) + 1.0)
        try:
            door.connect(address)
            if _uid(door) != os.getuid():
                raise PermissionError("another user's process holds the place where this job's ranks would meet")
            door.send(hello)
            while party.look and not select.select([door], [], [], LOOK_S)[0] and time.monotonic() < deadline:
                party.look([])
            text, fds, _, _ = socket.recv_fds(door, _LETTER_BYTES, 1)
        except (ConnectionError, TimeoutError):
            return None
        if not text:  # it took this member in, and ended
            if party.look:
                party.look([])
            raise RuntimeError(f"{party.named([0])} ended while {party.subject} was being set up")
        return json.loads(text), fds[0] if fds else -1


def _uid(connection: socket.socket) -> int:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])
