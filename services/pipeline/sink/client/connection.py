"""Connections as the sink makes them."""

from libs.client.kafka_connection import KafkaConnection
from libs.client.security import Security, SecurityProblem
from services.pipeline.sink.client.errors import SinkError

CLIENT_ID = "penstock-pipeline"
CONNECT_WITHIN_S = 5.0
ANSWER_BYTES_MAX = 256 << 20


def connected(host: str, port: int, security: Security, *, answers_within_s: float) -> KafkaConnection:
    """Raises BrokerUnreachable, or SinkError if the cluster denies the client."""
    try:
        connection = KafkaConnection(
            host,
            port,
            client_id=CLIENT_ID,
            timeout_s=CONNECT_WITHIN_S,
            answer_bytes_max=ANSWER_BYTES_MAX,
            security=security,
        )
    except SecurityProblem as error:
        raise SinkError(f"the sink cannot connect: {error}") from error
    connection.set_timeout(answers_within_s)
    return connection
