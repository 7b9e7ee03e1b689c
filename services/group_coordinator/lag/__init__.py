"""How far groups are behind, in records and in seconds. It imports `core` and `metadata`."""
