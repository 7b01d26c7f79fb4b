"""Options and help of each command, one file per command; imports none of the modules that do the work."""
