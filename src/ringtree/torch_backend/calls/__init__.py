"""The calls of a process group, in families; `launching` has their base."""
