"""The families of collective calls."""
