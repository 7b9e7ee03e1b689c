"""Metrics of a transaction coordinator. It imports `core`."""
