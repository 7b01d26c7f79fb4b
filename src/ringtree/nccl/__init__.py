"""What NCCL would do: its graph search, tuning model, transports and files; a GPU cluster's plan; why a log is slow."""
