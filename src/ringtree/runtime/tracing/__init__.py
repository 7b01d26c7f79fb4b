"""Recordings of ranks: made, gathered, and joined into one trace."""
