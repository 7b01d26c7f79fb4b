"""A model of NCCL: its graph search, tuning model, transports and files; a GPU cluster's plan; why a log is slow."""
