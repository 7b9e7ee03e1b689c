"""Decisions on requests about leaders, reassignments, registrations and producer ids. Pure."""
