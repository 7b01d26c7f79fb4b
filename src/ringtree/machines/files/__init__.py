"""Readers and writers of machines in other people's files, and in ours."""
