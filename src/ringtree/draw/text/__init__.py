"""Pictures as text: lines, whose pieces say what they are where a terminal colours them."""
