"""The ways to divide training over ranks, by what they divide."""
