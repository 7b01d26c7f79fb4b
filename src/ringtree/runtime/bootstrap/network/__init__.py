"""The meeting of ranks of several hosts: rank 0's server, the boards that announce it, and the posts of processes."""
