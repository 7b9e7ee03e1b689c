"""kafka-python, imported where its deprecation warnings are let through: it reads its schemas by old means."""

import gc
import socket
import warnings

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
    from kafka import errors as errors
    from kafka.admin import ConfigResource, OffsetSpec
    from kafka.net.inet import KafkaNetSocket
    from kafka.net.sasl.oauth import AbstractTokenProvider
    from kafka.net.selector import NetworkSelector

__all__ = [
    "AbstractTokenProvider",
    "ConfigResource",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "OffsetAndMetadata",
    "OffsetSpec",
    "TopicPartition",
    "close_forgotten_clients",
    "errors",
]


class ForgettableSocket(socket.socket):
    """A client that is closed while it connects forgets its socket, which is closed by whoever collects it."""

    def __del__(self) -> None:
        self.close()


KafkaNetSocket.socket = lambda _self, *kind: ForgettableSocket(*kind)


def close_forgotten_clients() -> None:
    """A client that cannot begin leaves the sockets open by which it wakes itself, and nobody can close it."""
    for found in gc.get_objects():
        if type(found) is NetworkSelector:
            found.close()
