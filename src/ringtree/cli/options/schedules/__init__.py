"""Options of the commands about algorithms and schedules."""
