"""Files: those that somebody else wrote, opened and parsed in bounded memory and time; new ones, there once whole."""
