"""The communicator: its families of calls, groups, messages and shared memory, and what is kept of calls."""

from ringtree import late

__getattr__ = late.names(__name__, {"foreign_names": ("hint",)})
