"""Programs on processors that have memory of their own: GPUs, or in their place this machine's processor."""
