"""Measuring: sweeps over sizes, exactly predictable data, every element checked, nccl-tests' figures."""
