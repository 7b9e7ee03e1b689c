"""Failures of processes, disks and connections: real clusters, real clients, real faults."""
