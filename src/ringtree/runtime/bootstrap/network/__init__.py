"""How ranks of several hosts find each other: rank 0's server, the boards that announce it, the posts of processes."""
