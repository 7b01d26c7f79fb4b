"""How long a schedule takes on a machine, and how far that is from the possible."""
