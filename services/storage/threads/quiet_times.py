"""The time after which a silent child process counts as hung."""

QUIET_S = 60.0
"""The limit for a child that reads: it reports every second or two."""
SLOWEST_SYNC = 10_000_000
"""Bytes a second. A child that syncs its files cannot report meanwhile."""


def quiet_s(unsynced_bytes: int) -> float:
    return QUIET_S + unsynced_bytes / SLOWEST_SYNC
