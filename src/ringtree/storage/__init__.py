"""A front end for files of tensors: every rank reads or writes its part, and collectives place the rest.

import ringtree.storage
tensors = ringtree.storage.load("model.safetensors", comm)
ringtree.storage.save(tensors, "model.safetensors", comm)
"""

from __future__ import annotations

from ringtree.storage.loading import load
from ringtree.storage.saving import save

__all__ = ["load", "save"]
