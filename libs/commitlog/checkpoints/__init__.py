"""Kafka's checkpoint files of offsets and leader epochs. It imports `files` and `model`."""
