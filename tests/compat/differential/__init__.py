"""The same requests to Apache Kafka 4.2.1 and to Penstock: what differs is what docs/protocol.md says, no more and no less."""
