"""The coordinator's view of the cluster image: topics and settings. It imports `core`."""
