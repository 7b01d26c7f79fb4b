"""Options and help of each command, one file per command, and what several have in common; imports none of the modules
that do the work."""
