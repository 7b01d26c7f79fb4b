"""The vocabulary: collectives, schedules, programs, and traces of runs."""
