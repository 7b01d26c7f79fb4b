"""Programs of thread blocks on devices: a device's constants, the play by them, and their fit to measured times."""

from ringtree.simulate.device.constants import DeviceConstants
from ringtree.simulate.device.play import play, seconds

__all__ = ["DeviceConstants", "play", "seconds"]
