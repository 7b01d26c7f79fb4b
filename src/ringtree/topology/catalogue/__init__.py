"""Known machines, one entry each."""
