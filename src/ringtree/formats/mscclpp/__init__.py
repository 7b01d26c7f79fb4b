"""MSCCL++ execution plans: JSON, as microsoft/mscclpp's executor runs them. One-sided: a thread block reads and writes
its peers' memory and signals them by semaphores."""
