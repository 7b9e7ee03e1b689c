"""Reads: Fetch with long polls, ListOffsets, files passed to gateways on the host, log layouts. It imports `partition` and
`core`."""
