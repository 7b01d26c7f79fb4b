"""What `make wheels` runs."""
