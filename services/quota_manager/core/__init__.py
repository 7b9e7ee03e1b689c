"""The pure core: token buckets, and the ledger that shares them out among gateways. It imports nothing of the service."""
