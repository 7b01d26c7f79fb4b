"""Messages between two ranks, and the requests that they begin."""
