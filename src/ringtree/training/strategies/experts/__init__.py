"""Experts divided."""
