"""Fetch: requests that wait, their responses, and ranges of a leader's files. It imports `data_path` and `peers`."""
