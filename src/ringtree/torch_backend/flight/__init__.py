"""The flight recorder: the operations of the groups, kept, and written when a call fails."""
