"""Readers and writers of machines in the files of other tools, and in ours."""
