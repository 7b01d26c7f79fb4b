"""Ways to learn where rank 0's server is, beside RINGTREE_ADDRESS=host:port: a shared file, a store, MPI."""
