"""NCCL's own files, and those of its tests: graphs, tuner tables, logs."""
