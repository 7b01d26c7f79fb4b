"""Options of the commands that run programs, measure, and find what is wrong."""
