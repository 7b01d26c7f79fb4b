"""Starting ranks: as copies of a program, forked processes, or threads."""
