"""A partition on this node: its log, its replica's numbers, its effects, the registry of open logs, sync rounds. It imports
`threads` and `core`."""
