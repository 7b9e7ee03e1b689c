"""The assignment of shards of internal topics to coordinators. Pure."""
