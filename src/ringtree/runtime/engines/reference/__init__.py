"""The reference engine: written to be read, and to be compared with."""
