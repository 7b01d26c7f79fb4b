"""Programs that were written for mpi4py, over packages that were."""
