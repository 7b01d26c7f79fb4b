"""Options of the commands that plan for a machine or a cluster."""
