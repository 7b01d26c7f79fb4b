"""The topology files of NCCL (version 1) and RCCL (version 2), as NCCL_TOPO_FILE names them and NCCL_TOPO_DUMP_FILE
writes them: <system> of <cpu> of <pci> of <gpu> and <nic>."""

from ringtree.topology.nccl_xml.reading import machine_of, read

__all__ = ["machine_of", "read"]
