"""Decisions on requests about leaders, reassignments, registrations, client quotas and producer ids. Pure. It imports `topics`
for names in messages."""
