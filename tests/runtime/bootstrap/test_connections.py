"""This process's TCP connections, as the kernel reports them."""

from __future__ import annotations

import socket

import pytest

from ringtree.runtime.bootstrap.network.connections import connections_to


def joined(host: str, family: socket.AddressFamily, nbytes: int, dualstack: bool = False) -> list[socket.socket]:
    """Both ends of a connection that has carried so many bytes, and the socket that listened."""
    listener = socket.create_server((host, 0), family=family, dualstack_ipv6=dualstack)
    one = socket.create_connection(("127.0.0.1" if dualstack else host, listener.getsockname()[1]))
    other, _ = listener.accept()
    one.sendall(bytes(nbytes))
    received = 0
    while received < nbytes:
        received += len(other.recv(1 << 16))
    return [one, other, listener]


@pytest.mark.parametrize(
    ("host", "family", "dualstack", "shown"),
    [
        ("127.0.0.1", socket.AF_INET, False, "127.0.0.1"),
        ("::1", socket.AF_INET6, False, "::1"),
        ("::", socket.AF_INET6, True, "127.0.0.1"),  # IPv4 in IPv6's form
    ],
)
def test_the_connection_with_the_most_bytes_is_first(
    host: str, family: socket.AddressFamily, dualstack: bool, shown: str
) -> None:
    before = connections_to({shown})
    try:
        ends = [*joined(host, family, 10, dualstack), *joined(host, family, 50_000, dualstack)]
    except OSError as error:
        pytest.skip(f"no {host} here: {error}")
    found = connections_to({shown})
    assert len(found) == len(before) + 4  # both ends are this process's
    first = found[0]
    assert (first.here, first.there) == (shown, shown) and first.nbytes >= 50_000
    assert 0 < first.mss_bytes < first.path_mtu_bytes and first.sent_segments > 0 <= first.retransmits
    assert connections_to({"192.0.2.77"}) == []
    for end in ends:
        end.close()
    assert connections_to({shown}) == before
