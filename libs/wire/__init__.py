"""The Kafka protocol without I/O: frames, headers, messages, record batches, error codes. It imports nothing above it."""
