"""Groups of ranks: sets of them, two that face each other, and groups with a topology."""
