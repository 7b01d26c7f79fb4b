"""What a run of training came to: times, bytes, memory, calls."""
