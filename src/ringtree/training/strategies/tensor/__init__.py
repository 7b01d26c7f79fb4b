"""Matrices divided, and between them activations."""
