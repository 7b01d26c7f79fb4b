"""Machines: detected, listed, drawn or written to files: `ringtree topo`."""
