"""kafka-python, imported where its deprecation warnings are let through: it reads its schemas by old means."""

import warnings

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
    from kafka import errors as errors
    from kafka.admin import ConfigResource, OffsetSpec

__all__ = [
    "ConfigResource",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "OffsetAndMetadata",
    "OffsetSpec",
    "TopicPartition",
    "errors",
]
