"""Markers of prepared transactions, on their way to the leaders of their partitions. It imports `core`."""
