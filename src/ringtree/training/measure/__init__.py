"""Measurements of a run of training: times, bytes, memory, calls."""
