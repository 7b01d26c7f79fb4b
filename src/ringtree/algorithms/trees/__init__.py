"""Algorithms along trees: sums go up to a root, vectors down from it."""
