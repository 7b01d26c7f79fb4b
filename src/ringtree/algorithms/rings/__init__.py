"""Algorithms in which ranks send to neighbours only: along a chain, around a ring, around the rings of a torus."""
