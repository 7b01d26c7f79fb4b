"""Algorithms in which every block goes straight from its owner to those who need it, or to a server and back."""
