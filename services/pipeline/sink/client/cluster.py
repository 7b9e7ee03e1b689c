"""The cluster as a task sees it: leaders, coordinators and connections, asked again when they are old."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from libs.client.kafka_connection import BrokerUnreachable, KafkaConnection
from libs.client.metadata import metadata
from libs.client.security import NO_SECURITY, Security
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages import find_coordinator
from services.pipeline.sink.client.connection import connected
from services.pipeline.sink.client.errors import Refused, SinkError

T = TypeVar("T")
Address = tuple[str, int]
TRANSACTION = 1  # FindCoordinator's key type
REQUEST_TIMEOUT_S = 30.0
BACKOFF_S = 0.02
BACKOFF_MAX_S = 1.0
UNKNOWN_TOPIC_TRIES = 5
UNKNOWN_TOPIC_PAUSE_S = 0.3


class ClusterClient:
    """Not thread safe. `retry_s`: how long a request is repeated while the cluster cannot carry it out."""

    def __init__(self, bootstrap: Sequence[Address], security: Security = NO_SECURITY, *, retry_s: float = 120.0) -> None:
        self._bootstrap = tuple(bootstrap)
        self._security = security
        self._retry_s = retry_s
        self._connections: dict[Address, KafkaConnection] = {}
        self._brokers: dict[int, Address] = {}
        self._leaders: dict[tuple[str, int], int] = {}
        self._coordinators: dict[str, Address] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def retrying(self, what: str, attempt: Callable[[], T]) -> T:
        """The result of the first attempt that is neither BrokerUnreachable nor refused with a retriable error."""
        until = time.monotonic() + self._retry_s
        pause = BACKOFF_S
        while True:
            try:
                return attempt()
            except (BrokerUnreachable, Refused) as error:
                if isinstance(error, Refused) and not error.is_retriable:
                    raise
                if time.monotonic() > until:
                    raise SinkError(f"{what} did not succeed within {self._retry_s:g} s: {error}") from error
            time.sleep(pause)
            pause = min(2 * pause, BACKOFF_MAX_S)

    def partition_count(self, topic: str) -> int | None:
        """None: there is no such topic. Brokers may need a moment to hear of a new one."""
        for _ in range(UNKNOWN_TOPIC_TRIES):
            leaders = self.retrying(f"Metadata of {topic}", lambda: self._leaders_unless_unknown(topic))
            if leaders is not None:
                return len(leaders)
            time.sleep(UNKNOWN_TOPIC_PAUSE_S)
        return None

    def _leaders_unless_unknown(self, topic: str) -> Mapping[int, int] | None:
        try:
            return self._load_leaders(topic)
        except Refused as error:
            if error.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
                return None
            raise

    def leader(self, topic: str, partition: int) -> Address:
        """Raises BrokerUnreachable while the partition has no leader."""
        if (topic, partition) not in self._leaders:
            try:
                self._load_leaders(topic)
            except Refused as error:
                raise BrokerUnreachable(str(error)) from error
        address = self._brokers.get(self._leaders.get((topic, partition), -1))
        if address is None:
            self.forget_leader(topic, partition)
            raise BrokerUnreachable(f"{topic}-{partition} has no leader")
        return address

    def forget_leader(self, topic: str, partition: int) -> None:
        self._leaders.pop((topic, partition), None)

    def connection(self, address: Address) -> KafkaConnection:
        if address not in self._connections:
            self._connections[address] = self.connect(address, answers_within_s=REQUEST_TIMEOUT_S)
        return self._connections[address]

    def connect(self, address: Address, *, answers_within_s: float) -> KafkaConnection:
        """A connection of the caller's own."""
        return connected(*address, self._security, answers_within_s=answers_within_s)

    def drop(self, address: Address) -> None:
        """After a connection was BrokerUnreachable: whoever lives there now may be another broker."""
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()
        self._leaders.clear()

    def any_broker(self, ask: Callable[[KafkaConnection], T]) -> T:
        """The answer of the first broker that answers."""
        failures = []
        for address in (*self._connections, *(a for a in self._bootstrap if a not in self._connections), *self._brokers.values()):
            try:
                return ask(self.connection(address))
            except BrokerUnreachable as error:
                failures.append(str(error))
                self.drop(address)
        raise BrokerUnreachable(failures[0])

    def ask_leader(self, topic: str, partition: int, ask: Callable[[KafkaConnection], T]) -> T:
        """`ask` raises Refused where the answer has an error; the leader is then looked up anew."""
        address = self.leader(topic, partition)
        try:
            return ask(self.connection(address))
        except BrokerUnreachable:
            self.drop(address)
            raise
        except Refused:
            self.forget_leader(topic, partition)
            raise

    def ask_coordinator(self, transactional_id: str, module: Any, key: ApiKey, version: int, message: object) -> Any:
        """The response, unread. Raises BrokerUnreachable or Refused (a coordinator's own errors) for `retrying`."""
        address = self._coordinators.get(transactional_id) or self._find_coordinator(transactional_id)
        try:
            return self.connection(address).ask_message(module, key, version, message)
        except BrokerUnreachable:
            self.drop(address)
            self._coordinators.pop(transactional_id, None)
            raise

    def forget_coordinator(self, transactional_id: str) -> None:
        self._coordinators.pop(transactional_id, None)

    def _find_coordinator(self, transactional_id: str) -> Address:
        request = find_coordinator.FindCoordinatorRequest(key=transactional_id, key_type=TRANSACTION)
        response = self.any_broker(lambda broker: broker.ask_message(find_coordinator, ApiKey.FIND_COORDINATOR, 3, request))
        if response.error_code != ErrorCode.NONE:
            raise Refused("FindCoordinator", response.error_code, response.error_message)
        self._coordinators[transactional_id] = (response.host, response.port)
        return response.host, response.port

    def _load_leaders(self, topic: str) -> Mapping[int, int]:
        view = self.any_broker(lambda broker: metadata(broker, [topic]))
        if code := view.errors[topic]:
            raise Refused(f"Metadata of {topic}", code)
        leaders = {each.index: each.leader for each in view.partitions}
        self._brokers = {broker.node_id: (broker.host, broker.port) for broker in view.brokers.values()}
        self._leaders |= {(topic, partition): leader for partition, leader in leaders.items()}
        return leaders
