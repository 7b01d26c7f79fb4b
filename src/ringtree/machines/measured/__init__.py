"""Measured copies of a machine with GPUs: its links fitted to them, and what is below its nominal figures."""
