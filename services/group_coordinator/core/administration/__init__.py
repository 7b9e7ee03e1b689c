"""Descriptions and deletions of groups of either kind. Pure."""
