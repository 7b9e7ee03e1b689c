"""Metadata of a Kafka cluster as Penstock's, and Penstock's as Kafka's: records of `__cluster_metadata` in, or out. Pure."""
