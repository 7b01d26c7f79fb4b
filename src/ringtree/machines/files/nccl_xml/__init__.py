"""The topology files of NCCL (version 1) and RCCL (version 2), as NCCL_TOPO_FILE names them and NCCL_TOPO_DUMP_FILE
writes them: <system> of <cpu> of <pci> of <gpu> and <nic>."""

from ringtree.machines.files.nccl_xml.assumed import assumptions, unused
from ringtree.machines.files.nccl_xml.reading import machine_of, read
from ringtree.machines.files.nccl_xml.writing import text, write

__all__ = ["assumptions", "machine_of", "read", "text", "unused", "write"]
