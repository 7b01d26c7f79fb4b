"""Engines: what one is, and those there are."""
