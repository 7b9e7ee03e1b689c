"""Cluster metadata: the store port and its adapters, leases, elections, members, and the immutable image that all services
follow. It imports libs/wire and libs/telemetry only."""
