"""The placement of a new partition's replicas, spread over racks and hosts. Pure."""
