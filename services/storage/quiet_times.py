"""How long a child process may tell nothing before it counts as hung."""

QUIET_S = 60.0
"""It reads and tells of it every second or two."""
SLOWEST_SYNC = 10_000_000
"""Bytes a second: while a child syncs what it read or wrote, it cannot tell anything."""


def quiet_s(unsynced_bytes: int) -> float:
    return QUIET_S + unsynced_bytes / SLOWEST_SYNC
