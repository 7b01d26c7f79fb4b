"""Tests of the door for torch.distributed. They need torch, and are skipped where there is none."""
