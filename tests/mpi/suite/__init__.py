"""mpi4py's own tests, run on ringtree.mpi."""
