"""The environment a rank was started in, and the bootstrap of ranks on one host or several."""
