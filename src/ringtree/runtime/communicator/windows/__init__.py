"""Memory that ranks of a group read and write in place."""
