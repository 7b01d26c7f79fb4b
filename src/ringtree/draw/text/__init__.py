"""Pictures as text: lines, whose pieces have roles that a terminal colours."""
