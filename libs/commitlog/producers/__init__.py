"""Producer state: sequences of idempotent producers, transactions, and their files. It imports `files` and `model`."""
