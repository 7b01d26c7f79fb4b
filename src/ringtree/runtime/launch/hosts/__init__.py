"""Starting a program as ranks of several hosts: a launcher, and an agent on each host."""
