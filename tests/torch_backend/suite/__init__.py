"""PyTorch's own tests of torch.distributed, which its wheel carries, on Gloo and on this backend.

    python -m tests.torch_backend.suite            # all of it, on both; minutes
    python -m tests.torch_backend.suite -k gather  # some of it

Nothing of the suite is copied: it is imported from the torch that is installed.
"""
