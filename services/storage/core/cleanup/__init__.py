"""The rule by which records count as old enough to delete. It imports nothing of storage."""
