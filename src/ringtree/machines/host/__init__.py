"""The limits and the network of this host as its kernel lists them, below a root: `/`, or another tree's."""
