"""Programs that an installation runs against a cluster, as any Kafka client would: a smoke test, and the removal of nodes."""
