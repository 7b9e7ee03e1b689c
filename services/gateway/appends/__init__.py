"""Appends: batches on their way to their leaders, in flight, parked, or sent again. It imports `peers` and `core`."""
