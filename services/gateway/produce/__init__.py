"""Produce: requests that wait for their batches, their responses, and producer ids. It imports `data_path` and `appends`."""
