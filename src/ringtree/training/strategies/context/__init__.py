"""Sequences divided, through the whole model."""
