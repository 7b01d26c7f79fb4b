"""The meeting of the ranks of several hosts, and which of them share a host.

Two ranks are on one host if one can connect to a unix socket of the other's, whose name is a random number: then the
kernel hands memory from one to the other. Host names, boot ids and addresses prove nothing: containers of one machine
may share them, and hosts made from one image do.
"""

from __future__ import annotations

import contextlib
import errno
import secrets
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import finalize

from ringtree.runtime.bootstrap.bootstrap import BootstrapGroup
from ringtree.runtime.bootstrap.local.abstract_socket import ABSTRACT_SOCKET
from ringtree.runtime.bootstrap.network.addresses import ANY, listen, listen_everywhere, same_kernel
from ringtree.runtime.bootstrap.network.contact import Board, Contact, Known
from ringtree.runtime.bootstrap.network.interfaces import candidates, chosen_interface
from ringtree.runtime.bootstrap.network.post import post
from ringtree.runtime.bootstrap.network.rendezvous import Rendezvous
from ringtree.runtime.bootstrap.network.server import RendezvousServer


class MultiHostBootstrap:
    """A HostBootstrap of ranks on one or several hosts: memory is shared by the members of each host.

    `generation`, `job`: as Rendezvous. The ranks of a forked generation meet at the server of their parents' rank 0.
    `check_liveness`: of rank 0, which may end before it is found. `names`: the ranks' names in their groups; their
    numbers are the default.
    """

    def __init__(
        self,
        board: Board,
        rank: int,
        size: int,
        timeout_s: float,
        check_liveness: Callable[[list[int]], None] | None = None,
        *,
        generation: int = 0,
        job: str = "",
        names: Sequence[str] | None = None,
    ) -> None:
        self._rank, self._size, self._timeout_s = rank, size, timeout_s
        self._names = tuple(map(str, range(size))) if names is None else tuple(names)
        self._number_of = {name: number for number, name in enumerate(self._names)}
        self._board, self._server = board, None
        try:
            if rank == 0 and not generation:
                self._server, board = serve(board, self._names)
            self._rendezvous = Rendezvous(
                board, rank, size, timeout_s, check_liveness, generation=generation, job=job, names=self._names
            )
        except BaseException:  # another attempt may follow
            self.close()
            raise
        self.job = self._rendezvous.job
        self.key = f"{self.job}/fork{generation}" if generation else self.job
        """The beginning of the keys of this generation's groups."""
        self.latency_s = 0.0
        """The latency of a message between hosts: the longest way to rank 0's host."""
        self.host_of: list[int] = []
        self._posts: list[tuple[str, str, int]] = []
        self.met = False
        """Whether the ranks have made a world."""
        self._worlds = 0

    def next_key(self) -> str:
        """The key of the next world: counted here, as ranks that have not met may have failed differently often."""
        self._worlds += 1
        return f"{self.key}/init{self._worlds}"

    def known(self) -> Board:
        """A board for a forked child, whose ranks meet where these have met."""
        return self._rendezvous.known()

    def close(self) -> None:
        """Ends rank 0's server, where the ranks have not met."""
        if self._server:
            self._board.withdraw()
            self._server.close()

    def leave(self) -> None:
        """Ends this rank's part, when it makes no more groups. Rank 0's server ends when the other ranks have left."""
        _leave(self._rendezvous, self._server)

    def leave_when_unused(self) -> None:
        """Leaves once this object is gone: no group that may make others has it any more."""
        finalize(self, _leave, self._rendezvous, self._server)

    @contextlib.contextmanager
    def setting_up(
        self, key: str, timeout_s: float, check_liveness: Callable[[list[int]], None] | None = None
    ) -> Iterator[Callable[[list[int]], None]]:
        """All ranks make the world of that key in it, and leave it together; a liveness check for that time. Whatever
        one of them raises in it reaches the others. `check_liveness`: of ranks that may have ended before they came."""
        subject = f"the job of {self._size} ranks"
        world = BootstrapGroup(key, self._rank, self._names, subject, timeout_s, check_liveness)
        with self._rendezvous.setting_up(world) as setup:
            self.find(key, check_liveness)
            yield setup.check
        if self._server and not self.met:
            self._board.withdraw()
        self.met = True

    def find(self, key: str, check_liveness: Callable[[list[int]], None] | None = None) -> None:
        """Finds which ranks share a host, once; all ranks call it. `key`: that of the world they make."""
        if not self.host_of:
            subject = f"the job of {self._size} ranks"
            members = self._rank, self._names, subject, self._timeout_s, check_liveness
            world = BootstrapGroup(f"{key}/hosts", *members)
            self.host_of = self._found(world)

    def _found(self, world: BootstrapGroup) -> list[int]:
        """The number of each rank's host, by order of their lowest ranks."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            name = secrets.token_hex(16)
            listener.bind(f"\0ringtree-host-{name}")
            listener.listen(world.size)
            mine = post()
            mine.know(self.job, self._rendezvous.prover(), self)
            reached_at = [mine.address, mine.address or self._rendezvous.here, mine.port]
            known = self.exchange(world, [name, same_kernel(), reached_at])
            lowest = next((r for r in range(world.rank) if known[r][1] == same_kernel() and _reaches(known[r][0])), -1)
            lowest = world.rank if lowest < 0 else lowest
            found = self.exchange(world._replace(key=f"{world.key}/found"), [lowest, self._rendezvous.round_trip_s()])
        firsts = [first for first, _ in found]
        self._posts = [(only, here, port) for _, _, (only, here, port) in known]
        kernels = [kernel for _, kernel, _ in known]
        self._machine_of = [kernels.index(kernel) for kernel in kernels]
        numbers = {first: number for number, first in enumerate(sorted(set(firsts)))}
        self.latency_s = max((trip_s / 2 for first, trip_s in found if first), default=0.0)
        return [numbers[first] for first in firsts]

    def exchange(self, group: BootstrapGroup, value: Any = None) -> list[Any]:
        """Each member's value, by way of rank 0."""
        return self._rendezvous.exchange(group, value)

    def share(
        self,
        group: BootstrapGroup,
        nbytes: int,
        value: Any = None,
        reserved: int | None = None,
        needed: int | None = None,
    ) -> tuple[int, list[Any]]:
        """A descriptor of memory that the members of this host share, and each member's value."""
        values = self.exchange(group, value)
        here = self.here(group)
        check = group.check_liveness
        local = group._replace(
            key=f"{group.key}/host {self.host_of[self._rank]}",
            rank=here.index(group.rank),
            names=[group.names[r] for r in here],
            check_liveness=check and (lambda absent: check([here[r] for r in absent])),
        )
        return ABSTRACT_SOCKET.share(local, nbytes, None, reserved, needed)[0], values

    def hosts(self, group: BootstrapGroup) -> list[int]:
        """The number of each member's host."""
        return [self.host_of[self._number_of[name]] for name in group.names]

    def machines(self, group: BootstrapGroup) -> list[int]:
        """A number of each member's machine: hosts that are containers of one share its cores."""
        return [self._machine_of[self._number_of[name]] for name in group.names]

    def here(self, group: BootstrapGroup) -> list[int]:
        """The members on this host."""
        mine = self.host_of[self._rank]
        return [r for r, host in enumerate(self.hosts(group)) if host == mine]

    def listener(self) -> socket.socket:
        """A listening socket at which the ranks of other hosts reach this one: at RINGTREE_INTERFACE; else at the
        address by which it reached rank 0, so on a network that all of them are in. The ranks of rank 0's host listen
        at all addresses where the others may have reached that host at several."""
        chosen = chosen_interface()
        if self._at_several(self._rank) and not chosen:
            made = listen_everywhere()
        else:
            here = self._rendezvous.here
            alike = [found.address for found in chosen if (":" in found.address) == (":" in here)]
            host = (alike or [found.address for found in chosen] or [here])[0]
            made = socket.create_server(
                (host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=1024
            )
        made.setblocking(False)
        return made

    def address_of(self, name: str, published: str) -> str:
        """The address at which this rank reaches the rank of that name, which has published one. Of rank 0's host it
        is the one at which this rank has reached rank 0."""
        if self._at_several(self._number_of[name]) and published in ANY and self._rendezvous.reached:
            return self._rendezvous.reached[0]
        return published

    def post_of(self, name: str) -> tuple[str, int]:
        """The address at which the rank of that name is reached as long as its process lives (`post`)."""
        only, here, port = self._posts[self._number_of[name]]
        several = not only and self._at_several(self._number_of[name])
        return self.address_of(name, ANY[0]) if several else here, port

    @property
    def proof_of(self) -> Callable[..., bytes]:
        """Makes 32 bytes of texts that only a rank of the job can make."""
        return self._rendezvous.prover()

    def _at_several(self, rank: int) -> bool:
        """Whether other hosts may have reached that rank's host, which is rank 0's, at different addresses."""
        return self._board.several and self.host_of[rank] == self.host_of[0]

    def proof(self, act: str, key: str, source: int, target: int, nonces: Sequence[str]) -> bytes:
        """The proof that member `source` presents to member `target`. `nonces`: theirs, in that order."""
        return self._rendezvous.proof("lane", act, key, str(source), str(target), *nonces)


def serve(board: Board, names: Sequence[str]) -> tuple[RendezvousServer, Board]:
    """Rank 0's server, announced on the board; and a board that rank 0 itself can read. `names`: of all ranks."""
    size = len(names)
    if board.given:
        return RendezvousServer(listen(board.given.addresses[0], board.given.port), board.secret, size, names), board
    try:
        chosen = candidates()
        listener = listen_everywhere()
    except (OSError, ValueError, RuntimeError) as error:
        board.give_up(str(error))
        raise
    contact = Contact(tuple(chosen), listener.getsockname()[1], secrets.token_bytes(32))
    server = RendezvousServer(listener, contact.secret + board.secret, size, names)
    try:
        board.announce(contact)
    except BaseException:
        server.close()
        raise
    return server, Known(contact, board.where, board.secret)


def _leave(rendezvous: Rendezvous, server: RendezvousServer | None) -> None:
    rendezvous.leave()
    if server:
        server.retire()


def _reaches(name: str) -> bool:
    """Whether the rank that listens under that name is on this host."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK) as probe:
        return probe.connect_ex(f"\0ringtree-host-{name}") in (0, errno.EAGAIN)
