"""Rows divided: data parallelism, and what of the model's state is divided with it."""
