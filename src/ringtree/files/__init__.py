"""Files that somebody else wrote: how they are opened, unpacked and parsed, in bounded memory and time."""
