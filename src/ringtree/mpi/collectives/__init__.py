"""The collectives of a group, in MPI's forms."""
