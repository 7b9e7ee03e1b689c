"""Metrics of the gateway. The hot path counts plain integers, which become samples at a scrape.

A client id is never a label: clients choose their ids, so their number has no bound.
"""

from typing import Any

from libs.clock import Clock
from libs.telemetry.definitions import CounterDefinition, GaugeDefinition, MetricSet
from libs.telemetry.metrics import Metrics
from libs.wire.errors import ErrorCode, error_name
from libs.wire.served_versions import SERVED_VERSIONS
from services.gateway.core.answer_budget import AnswerBudget
from services.gateway.core.connection_limits import CONNECTION_CREATION_RATE, MAX_CONNECTIONS, MAX_CONNECTIONS_PER_IP
from services.gateway.core.request_budget import RequestBudget
from services.gateway.request_meters import RequestMeters, api_name


class GatewayMeters(MetricSet):
    """The gateway's collector in the service's registry."""

    bytes_in: int = CounterDefinition(
        name="penstock_gateway_received_bytes",
        help="Bytes received from clients.",
        healthy="follows the load",
    ).kept()
    bytes_out: int = CounterDefinition(
        name="penstock_gateway_sent_bytes",
        help="Bytes sent to clients.",
        healthy="follows the load",
    ).kept()
    connections: int = GaugeDefinition(
        name="penstock_gateway_connections",
        help="Client connections that are open now.",
        healthy="steady, and well below `penstock_gateway_connections_max`",
        otherwise="Find the clients that do not reuse their connections. Raise the limit of open files, or add a gateway.",
    ).kept()
    connections_max: int = GaugeDefinition(
        name="penstock_gateway_connections_max",
        help="Client connections that there may be: `max.connections`, or what the limit of open files leaves.",
        healthy="changes with `max.connections` only",
    ).kept()
    connections_total: int = CounterDefinition(
        name="penstock_gateway_connections_opened",
        help="Client connections accepted.",
        healthy="a few per client and hour",
        otherwise="Clients connect again and again. `penstock_gateway_connections_closed_total` has the reasons.",
    ).kept()
    parked_bytes: int = GaugeDefinition(
        name="penstock_gateway_parked_bytes",
        help="Bytes of batches that wait for a leader now.",
        healthy="0, but for seconds after the death of a storage node",
        otherwise="Partitions have no leader. Look at `kafka_controller_kafkacontroller_offlinepartitionscount`.",
    ).kept()
    parked_total: int = CounterDefinition(
        name="penstock_gateway_parked",
        help="Batches that waited for a leader.",
        healthy="rises only when leaders change",
        otherwise="Leaders change often. Look for storage nodes that restart or hang.",
    ).kept()
    resent_total: int = CounterDefinition(
        name="penstock_gateway_resent",
        help="Batches sent again after the connection to a storage node was lost, or its leadership.",
        healthy="rises only when a storage node restarts",
        otherwise="Look for storage nodes that restart, and for a network that drops connections.",
    ).kept()
    files_not_opened: int = CounterDefinition(
        name="penstock_gateway_files_not_opened",
        help="Fetches for which a segment file could not be opened. Their records come by RPC instead.",
        healthy="0, or rare: a segment was deleted meanwhile",
        otherwise="`segment file not opened` in the gateway's log has the reason. Without free descriptors, raise the limit of "
        "open files, or lower `connections_max`.",
    ).kept()
    closed: dict[str, int] = CounterDefinition(
        name="penstock_gateway_connections_closed",
        help="Client connections that ended, by reason.",
        labels=("reason",),
        healthy="`client`, `reset`, `idle`, `expired` and `drain` only",
        otherwise="Look for `client connection closed` in the gateway's log: it names the client and the detail. "
        "`internal` is a fault of the gateway: report it.",
    ).kept()
    refused: dict[str, int] = CounterDefinition(
        name="penstock_gateway_connections_refused",
        help="Client connections that were not served, by the limit that they exceeded.",
        labels=("reason",),
        from_zero=((MAX_CONNECTIONS,), (MAX_CONNECTIONS_PER_IP,), (CONNECTION_CREATION_RATE,)),
        healthy="0",
        otherwise="`client connection refused` in the gateway's log names the host. `max-connections`: raise the limit of open "
        "files, or add a gateway. `max-connections-per-ip`, and `connection-creation-rate`, the quota of an address: find the "
        "client that does not reuse its connections.",
    ).kept()
    authentications: int = CounterDefinition(
        name="penstock_gateway_successful_authentication",
        help="Clients that have authenticated by SASL.",
        healthy="as many as connections to the listener with SASL",
    ).kept()
    failed_authentications: int = CounterDefinition(
        name="penstock_gateway_failed_authentication",
        help="Clients that were denied by SASL: a wrong user or password, or an invalid token.",
        healthy="0",
        otherwise="`client connection closed` with the reason `authentication` in the gateway's log names the host.",
    ).kept()
    reauthentications: int = CounterDefinition(
        name="penstock_gateway_successful_reauthentication",
        help="Clients that have authenticated again on their connection, before or after the end of their session.",
        healthy="follows the connections to the listener with SASL, if sessions end",
    ).kept()
    failed_reauthentications: int = CounterDefinition(
        name="penstock_gateway_failed_reauthentication",
        help="Clients that were denied when they authenticated again: a deleted user, another user or another mechanism.",
        healthy="0, or users were deleted",
        otherwise="`client connection closed` with the reason `authentication` in the gateway's log names the host.",
    ).kept()
    unread_signing_keys: int = CounterDefinition(
        name="penstock_gateway_unread_signing_keys",
        help="Attempts to read the keys for tokens of OAUTHBEARER that failed.",
        healthy="0",
        otherwise="`signing keys not read` in the gateway's log has the reason. The last keys stay. Without any, each token is "
        "invalid.",
    ).kept()
    certificate_expires_at: float = GaugeDefinition(
        name="penstock_gateway_certificate_expiry_timestamp_seconds",
        help="When the certificate of the listeners with TLS expires, in seconds since the epoch. 0: there is none.",
        healthy="weeks ahead, or 0",
        otherwise="Replace the file of `PENSTOCK_SSL_KEYSTORE_LOCATION`: it is read again within seconds. "
        "`new certificate of this gateway not used` in the gateway's log has the reason if it is not.",
    ).kept()
    accept_wait_s: float = CounterDefinition(
        name="penstock_gateway_accept_wait_seconds",
        help="Time for which ports took no connection, since connections were made faster than `max.connection.creation.rate`.",
        healthy="0",
        otherwise="`client connections wait` in the gateway's log names a host. Find the clients that connect again and "
        "again, or raise the limit.",
    ).kept()
    throttled: dict[str, int] = CounterDefinition(
        name="penstock_gateway_throttled_requests",
        help="Requests after which a client was muted, by the quota that it was over.",
        labels=("quota",),
        healthy="0, or as configured: a client that wants more than its quota is muted again and again",
        otherwise="`/debug/quotas` of the quota manager names the entities. See [quotas](../quotas.md).",
    ).kept()
    throttle_seconds: dict[str, float] = CounterDefinition(
        name="penstock_gateway_throttle_seconds",
        help="The time for which clients were muted, by the quota that they were over.",
        labels=("quota",),
        healthy="0, or as configured",
        otherwise="See `penstock_gateway_throttled_requests_total`.",
    ).kept()
    errors: dict[tuple[int, int], int] = CounterDefinition(
        name="penstock_gateway_request_errors",
        help="Errors in answers to clients, by API and Kafka's name of the error. An answer counts once for each topic, "
        "partition or group in it that has one. What a group's coordinator answered is in `penstock_groups_errors_total`.",
        labels=("api", "error"),
        from_zero=tuple((api_name(key), ErrorCode.UNKNOWN_SERVER_ERROR.name) for key in SERVED_VERSIONS),
        healthy="0, or rare; NOT_LEADER_OR_FOLLOWER and LEADER_NOT_AVAILABLE while leaders change or topics are made",
        otherwise="Look the name up in [troubleshooting](../use/troubleshooting.md).",
    ).kept(shown=lambda key: (api_name(key[0]), error_name(key[1])))
    """By API key and error code."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        super().__init__()
        self.requests: RequestBudget[Any] = RequestBudget(0, 0)
        """This and the next: the budgets that all client connections share, once they have them."""
        self.answers: AnswerBudget[Any] = AnswerBudget(0)
        self.by_api = RequestMeters(metrics, clock)
        metrics.registry.register(self)

    @GaugeDefinition(
        name="kafka_network_requestchannel_requestqueuesize",
        help="Requests that were received and have not begun. A connection begins one after the other, and none while its client "
        "leaves answers unread or a quota mutes it.",
        healthy="below 2 for each gateway; more where clients send requests without a wait for answers",
        otherwise="Clients send faster than they are served. See `kafka_network_requestmetrics_requestqueuetime_seconds`, "
        "`kafka_network_requestmetrics_throttletime_seconds` and `penstock_gateway_unread_answer_bytes`, or add a gateway.",
    )
    def queued_requests(self) -> int:
        return self.requests.queued

    @GaugeDefinition(
        name="penstock_gateway_queued_request_bytes",
        help="Bytes of requests that are not answered yet, or arrive now.",
        healthy="well below `penstock_gateway_queued_request_max_bytes`",
        otherwise="See `penstock_gateway_connections_waiting`.",
    )
    def queued_request_bytes(self) -> int:
        return self.requests.used

    @GaugeDefinition(
        name="penstock_gateway_queued_request_max_bytes",
        help="Bytes of requests at which connections are not read any more.",
        healthy="constant",
    )
    def queued_request_bytes_max(self) -> int:
        return self.requests.bytes_max

    @GaugeDefinition(
        name="penstock_gateway_unread_answer_bytes",
        help="Bytes of answers in memory that clients have not read yet, without those of connections with less than 64 KiB.",
        healthy="below half of `penstock_gateway_unread_answer_max_bytes`",
        otherwise="Clients do not read what they asked for. Above half, they are closed with the reason `unread-answers`: "
        "`client connection closed` in the gateway's log names them.",
    )
    def unread_answer_bytes(self) -> int:
        return self.answers.used

    @GaugeDefinition(
        name="penstock_gateway_unread_answer_max_bytes",
        help="Bytes of unread answers at which the connection that has stood still longest is closed.",
        healthy="constant",
    )
    def unread_answer_bytes_max(self) -> int:
        return self.answers.bytes_max

    @GaugeDefinition(
        name="penstock_gateway_connections_waiting",
        help="Client connections that are not read, since the requests of all clients take all the room.",
        healthy="0, or a few for moments",
        otherwise="Storage is slow, or a client sends more than is taken: `client connection closed` with the reason "
        "`queued-requests` names it. `no-room`: one that waited too long. Raise `queued_request_bytes_max`, or add a gateway.",
    )
    def connections_waiting(self) -> int:
        return self.requests.waiting

    def opened(self) -> None:
        self.connections += 1
        self.connections_total += 1

    def lost(self) -> None:
        self.connections -= 1

    def ended(self, reason: str) -> None:
        self.closed[reason] = self.closed.get(reason, 0) + 1

    def refuse(self, reason: str) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + 1

    def failed(self, api_key: int, error: int) -> None:
        """Counts one error in an answer."""
        self.errors[api_key, error] = self.errors.get((api_key, error), 0) + 1
