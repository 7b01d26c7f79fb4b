"""Messages between two ranks, and what is under way."""
