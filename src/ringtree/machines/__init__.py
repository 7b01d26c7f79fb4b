"""What is there: devices and their parts, machines and clusters of them, the catalogue, this host, others' files."""
