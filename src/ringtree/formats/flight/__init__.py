"""Dumps of flight recorders: PyTorch's format, of its own backends and of ringtree's; and what they say of a hang."""
