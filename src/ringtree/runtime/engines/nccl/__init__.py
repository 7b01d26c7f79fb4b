"""The engine that runs programs by grouped sends and receives of a torch.distributed backend: NCCL between GPUs."""
