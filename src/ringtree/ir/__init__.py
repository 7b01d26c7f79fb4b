"""The vocabulary: collectives, schedules, programs, and traces of what ran."""
