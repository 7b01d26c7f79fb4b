"""Hardware: devices and their parts, machines and clusters, the catalogue, this host, the files of other tools."""
