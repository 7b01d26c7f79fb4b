"""Windows: one-sided access to the memory of other ranks."""
