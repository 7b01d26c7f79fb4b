"""The communicator: its families of calls, groups, messages and shared memory, and what is kept of calls."""
