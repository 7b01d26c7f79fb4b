"""What each command takes, and says of itself: a file a command. Nothing here needs what does the work."""
