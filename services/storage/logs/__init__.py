"""Checkpoints on the disks, and log start offsets, which move only after their checkpoint did. It imports `disks` and
`partition`."""
