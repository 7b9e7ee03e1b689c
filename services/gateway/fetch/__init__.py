"""Fetch: requests that wait, the sequential fetch cache, and lookups in the leader's files. It imports `data_path` and
`peers`."""
