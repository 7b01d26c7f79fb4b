"""The interface by which other hosts reach one, and the reason, on hosts that have several."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.runtime.hosts.conftest import made_lab
from tests.runtime.hosts.lab import Lab

ASK = """
import sys
from ringtree.runtime.bootstrap.network.interfaces import leading_interface
found, why = leading_interface(sys.argv[1], {"RINGTREE_INTERFACE": sys.argv[2]} if sys.argv[2] else {})
print(found and found.name, found and found.address, why, sep="|")
"""
EXTRA = ("docker0", "172.17.0.1"), ("eth1", "10.97.0.1")


@pytest.fixture(scope="module")
def several() -> Iterator[Lab]:
    """Host 0 has eth0, eth1 and docker0; host 1 has eth0 and the default route; host 2 has lo alone."""
    for lab in made_lab():
        for name, address in EXTRA:
            lab.run(0, f"ip link add {name} type veth peer name of_{name}")
            lab.run(0, f"ip link set of_{name} up && ip addr add {address}/24 dev {name} && ip link set {name} up")
        lab.run(1, f"ip route add default via {lab.address(0)}")
        lab.run(2, "ip link set eth0 down")
        yield lab


@pytest.mark.parametrize(
    ("host", "towards", "named", "expected"),
    [
        (0, "", "", "eth0|10.99.0.1|the first of several"),
        (0, "10.97.0.9", "", "eth1|10.97.0.1|it leads to rank 0's host 10.97.0.9"),
        (0, "172.17.0.9", "", "docker0|172.17.0.1|it leads to rank 0's host 172.17.0.9"),
        (0, "10.97.0.9", "docker0", "docker0|172.17.0.1|RINGTREE_INTERFACE names it"),
        (0, "198.51.100.7", "", "None|None|no interface leads to 198.51.100.7"),
        (1, "", "", "eth0|10.99.0.2|the default route leads there"),
        (1, "198.51.100.7", "", "eth0|10.99.0.2|it leads to rank 0's host 198.51.100.7"),
        (2, "", "", "lo|127.0.0.1|there is no other"),
    ],
)
def test_the_interface_and_why(several: Lab, host: int, towards: str, named: str, expected: str) -> None:
    words = [*several.command(host), sys.executable, "-c", ASK, towards, named]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected
