"""All checks of this host, in the order in which they are shown."""

from __future__ import annotations

from ringtree.cli.doctor import gpudirect, gpus, network, resources, settings, software, wires
from ringtree.cli.doctor.check import Check, CheckedHost, CheckFunction, checked

CHECKS: tuple[tuple[str, str, CheckFunction], ...] = (
    (software.SECTION, "python", software.python),
    (software.SECTION, "ringtree", software.engine),
    (software.SECTION, "torch", software.torch),
    (resources.SECTION, "cores", resources.cores),
    (resources.SECTION, "load", resources.load),
    (resources.SECTION, "memory", resources.memory),
    (resources.SECTION, "/dev/shm", resources.shared_memory),
    (resources.SECTION, "limits", resources.limits),
    (network.SECTION, "interfaces", network.interfaces),
    (network.SECTION, "chosen", network.chosen),
    (wires.SECTION, "wire", wires.wire),
    (wires.SECTION, "ucx", wires.ucx),
    (wires.SECTION, "rdma", wires.rdma),
    (software.LAUNCHERS, "launchers", software.launchers),
    (gpus.SECTION, "gpus", gpus.gpus),
    (gpudirect.SECTION, "gpudirect", gpudirect.gpu_direct),
    (settings.SECTION, "tune", settings.tune),
    (settings.SECTION, "variables", settings.variables),
)
"""Section and name of a check, for the case that it fails, and its function."""


def check_host(host: CheckedHost) -> list[Check]:
    """The rows of this host."""
    return [row for section, name, check in CHECKS for row in checked(host, section, name, check)]
