"""Measure this machine; later calls choose algorithms by the result.

    ringtree tune                       takes some seconds; writes ~/.config/ringtree/machine.json, which init() reads
    ringtree tune -n 2,4,8 --seconds 30 --output machine.json
    ringtree tune --device cuda         copies between GPUs and with the host, and what is below nominal
    ringtree tune --hosts a,b           this and the network between these hosts, by ssh
    RINGTREE_ADDRESS=10.0.0.1:29400 mpirun -n 2 -H 10.0.0.1,10.0.0.2 ringtree tune

Measures calls of a few algorithms in turn and fits cost parameters to them: seconds per call and per message, rates of
bytes copied, fetched from a peer and reduced (by size, because of caches), and the cost of sharing a core. Then it
measures the algorithms that calls choose from against each other, and corrects their predicted times. Later calls
choose algorithms and cut schedules by these parameters. The file is a topology, for `ringtree simulate --topology FILE`
too; RINGTREE_TOPOLOGY=FILE makes init() read another file.

--seconds S bounds the whole but the network: where S is short, fewer sizes and algorithms are measured, and what is
left out is predicted by the formula alone. Calls of up to 256 KiB are measured however short it is, which takes about
two seconds on two cores. Without --seconds each call is measured once at least, however long that takes.

Ranks on several hosts, by --hosts or started as any program is (RINGTREE_ADDRESS set), measure in addition the latency
and bandwidth of the network between their hosts; rank 0 measures its host and writes the file. A later `ringtree tune`
on that host alone keeps the network.

--device cuda times copies between every two GPUs, with and without peer access, within each, and to and from the host's
memory, pinned and pageable, each way and both at once. It prints the rates beside the nominal ones, says what is below
them and why (a PCIe link of half its lanes, peer access that is off, a NVLink that is down, lowered clocks), and writes
the machine with measured links to ~/.config/ringtree/devices.json, for `ringtree topo show FILE` and
`ringtree plan --topology FILE`. It needs cuda-bindings, and nvidia-ml-py for the reasons. --json FILE keeps the
measured copies; --from FILE explains those of another machine, without a GPU.
"""

from __future__ import annotations

import argparse

from ringtree.cli.options import hosts
from ringtree.cli.options.files import FileRead, to_write
from ringtree.cli.options.subject import rank_counts

SECONDS = 20.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `ringtree tune`."""
    add = parser.add_argument
    add(
        "-n",
        "--ranks",
        type=rank_counts,
        metavar="N",
        help="numbers of ranks such as 2,4 (default: 2 ranks up to 2 per core)",
    )
    add("--seconds", type=float, metavar="S", help="seconds in all (default: 20, or until all is measured once)")
    add("-e", "--maxbytes", metavar="SIZE", help="largest size (default 64M; with --device 256M)")
    add("--output", type=to_write, metavar="FILE", help="file to write (default: the file that init() reads)")
    hosts.add_arguments(parser, "measure the network between these hosts, too")
    add("--device", choices=["cuda"], help="measure copies between devices of this kind, instead of ranks on CPUs")
    add("--json", type=to_write, metavar="FILE", help="with --device: also write the measured copies")
    add("--from", dest="from_file", type=FileRead, metavar="FILE", help="explain the copies of a file of --json")
