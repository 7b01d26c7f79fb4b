"""Workers that do not wait for each other, within bounds."""
