"""Element types of MPI, derived ones included, and the memory that they lie in."""
