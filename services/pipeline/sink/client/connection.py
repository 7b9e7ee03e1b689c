"""Connections as the sink makes them."""

from libs.client.kafka_connection import KafkaConnection

CLIENT_ID = "penstock-pipeline"
CONNECT_WITHIN_S = 5.0
ANSWER_BYTES_MAX = 256 << 20


def connected(host: str, port: int, *, answers_within_s: float) -> KafkaConnection:
    """Raises BrokerUnreachable."""
    connection = KafkaConnection(host, port, client_id=CLIENT_ID, timeout_s=CONNECT_WITHIN_S, answer_bytes_max=ANSWER_BYTES_MAX)
    connection.set_timeout(answers_within_s)
    return connection
