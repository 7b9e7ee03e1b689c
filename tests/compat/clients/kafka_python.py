"""kafka-python, imported where its deprecation warnings are let through: it reads its schemas by old means."""

import socket
import warnings

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
    from kafka import errors as errors
    from kafka.admin import ConfigResource, OffsetSpec
    from kafka.net.inet import KafkaNetSocket

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


class ForgettableSocket(socket.socket):
    """A client that is closed while it connects forgets its socket, which is closed by whoever collects it."""

    def __del__(self) -> None:
        self.close()


KafkaNetSocket.socket = lambda _self, *kind: ForgettableSocket(*kind)
