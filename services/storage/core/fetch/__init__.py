"""The rules of reads: offsets and budgets, nearer replicas, fetches that wait. It imports nothing of storage."""
