"""Kafka's configs of topics, brokers and groups as tables, with their bounds, defaults and how they resolve. Pure."""
