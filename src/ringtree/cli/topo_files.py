"""The files that a machine is written to."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from ringtree.cli.destination import check_destination, write_page
from ringtree.formats.replacing import replacing
from ringtree.machines.channels import Channels
from ringtree.machines.clusters import Cluster
from ringtree.machines.files import machine_json, nccl_xml
from ringtree.pages.machine_page import machine_page


def write(
    args: argparse.Namespace,
    cluster: Cluster,
    channels: Callable[[], Sequence[Channels]],
    between: tuple[int, int] = (0, 1),
) -> bool:
    """Writes those that are asked for, and says where they lie; whether there were any. No file is begun where one of
    them could not be written, or is what was read. `between`: the GPUs whose ways the page lays side by side."""
    forms = ((args.json, machine_json.text), (args.xml, nccl_xml.text))
    asked = [path for path in (args.json, args.xml, args.html) if path]
    read = [path for path in (getattr(args, "topology", None), getattr(args, "graph", None)) if path]
    for n, path in enumerate(asked):
        check_destination(path, *read, *asked[:n])
    texts = [(path, text(cluster.machine)) for path, text in forms if path]
    html = ""
    if args.html:
        html = machine_page(cluster, channels(), between)
    for path, data in texts:
        with replacing(path) as file:
            file.write(data.encode())
        print(f"{path}: {cluster.machine.name}")
    if html:
        write_page(args.html, html)
    return bool(asked)
