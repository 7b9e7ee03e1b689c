"""Clients that are not ours against a real cluster: librdkafka, Apache Kafka's Java tools, kafka-python, aiokafka, kcat."""
