"""MSCCL XML: programs of thread blocks for GPUs, as microsoft/msccl, Azure/msccl-executor-nccl and RCCL run them."""
