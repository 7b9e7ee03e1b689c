"""Produce: requests that wait for their batches, and their responses. It imports `data_path` and `appends`."""
