"""The things that command lines name: sizes, schedules, clusters, topologies, faults, files to write."""
