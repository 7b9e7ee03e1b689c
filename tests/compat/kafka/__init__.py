"""Apache Kafka 4.2.1, to compare with and for its own tools."""
