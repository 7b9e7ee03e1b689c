"""The producer of one task: one transaction, with its batches in the order in which they were added.

One Produce is in flight at each leader, with one batch at most of each partition. So a repeated request needs no care:
its batches have the same sequences, and brokers answer what they have already stored as if it were new.
"""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from libs.client.kafka_connection import BrokerUnreachable, KafkaConnection
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages import add_partitions_to_txn, end_txn, init_producer_id
from services.pipeline.sink.client.cluster import BACKOFF_MAX_S, BACKOFF_S, Address, ClusterClient
from services.pipeline.sink.client.errors import Refused, SinkError, refuse
from services.pipeline.sink.client.requests import ProducedBatch, TopicPartition, receive_produce, send_produce
from services.pipeline.sink.record_encoder import BatchProducer, RecordBatch, frame_batch

INIT_PRODUCER_ID_VERSION = 3
ADD_PARTITIONS_VERSION = 3
END_TXN_VERSION = 3
REQUEST_BYTES_MAX = 8 << 20
SEQUENCES = 1 << 31
DELIVER_WITHIN_S = 120.0
ANSWER_WITHIN_S = 40.0


@dataclass
class _Queue:
    """The batches of a partition that no broker has acknowledged, framed."""

    next_sequence: int = 0
    batches: deque[list[Any]] = field(default_factory=deque)
    waits_since: float = 0.0
    last_base_offset: int = -1


class TransactionalProducer:
    """Raises Fenced, Refused or SinkError. `begin` comes first, `commit` or `abort` last."""

    def __init__(self, cluster: ClusterClient, transactional_id: str, *, timeout_ms: int, codec: int) -> None:
        self._cluster = cluster
        self.transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._codec = codec
        self._producer = BatchProducer(-1, -1)
        self._queues: dict[TopicPartition, _Queue] = {}
        self._added: set[TopicPartition] = set()
        self._in_flight: dict[Address, list[TopicPartition]] = {}
        self._sent_at: dict[Address, float] = {}
        self._connections: dict[Address, KafkaConnection] = {}
        self._pause = BACKOFF_S
        self.queued_bytes = 0

    def begin(self) -> None:
        """Fences other producers of this transactional id. What they left open is ended when this returns."""
        request = init_producer_id.InitProducerIdRequest(self.transactional_id, self._timeout_ms)

        def attempt() -> Any:
            return self._ask_coordinator(init_producer_id, ApiKey.INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, request)

        response = self._cluster.retrying("InitProducerId", attempt)
        self._producer = BatchProducer(response.producer_id, response.producer_epoch)

    def add(self, place: TopicPartition, batch: RecordBatch) -> None:
        """Queues a batch. `pump` sends it."""
        queue = self._queues.setdefault(place, _Queue())
        buffers = frame_batch(batch, self._producer, queue.next_sequence, self._codec)
        queue.next_sequence = (queue.next_sequence + batch.record_count) % SEQUENCES
        queue.batches.append(buffers)
        self.queued_bytes += _size(buffers)

    def last_base_offset(self, place: TopicPartition) -> int:
        """Where the last acknowledged batch of the partition lies."""
        return self._queues[place].last_base_offset

    def pump(self) -> None:
        """Takes the answers that are there, sends what may be sent. Does not wait."""
        self._turn(0.0)

    def drain(self, queued_bytes_max: int = 0) -> None:
        """Returns when at most that much is unacknowledged."""
        while self.queued_bytes > queued_bytes_max:
            self._turn(0.1)

    def commit(self) -> None:
        """Everything that was added becomes visible at once. A lost answer is asked for again."""
        self.drain()
        self._end(committed=True)

    def abort(self) -> None:
        if self._added:
            self._end(committed=False)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _turn(self, wait_s: float) -> None:
        self._send()
        for address in list(self._in_flight):
            self._take_answer(address, wait_s)

    def _send(self) -> None:
        waiting = [place for place, queue in self._queues.items() if queue.batches and not self._is_in_flight(place)]
        if not waiting:
            return
        self._add_partitions([place for place in waiting if place not in self._added])
        by_leader: dict[Address, dict[TopicPartition, Sequence[Any]]] = {}
        for place in waiting:
            try:
                leader = self._cluster.leader(*place)
            except BrokerUnreachable as error:
                self._back_off(place, str(error))
                continue
            chosen = by_leader.setdefault(leader, {})
            if leader not in self._in_flight and sum(map(_size, chosen.values())) < REQUEST_BYTES_MAX:
                chosen[place] = self._queues[place].batches[0]
        for leader, batches in by_leader.items():
            if batches:
                self._send_to(leader, batches)

    def _send_to(self, leader: Address, batches: dict[TopicPartition, Sequence[Any]]) -> None:
        try:
            if leader not in self._connections:
                self._connections[leader] = self._cluster.connect(leader, answers_within_s=ANSWER_WITHIN_S)
            send_produce(self._connections[leader], self.transactional_id, batches)
        except BrokerUnreachable as error:
            self._lose(leader, list(batches), str(error))
            return
        self._in_flight[leader] = list(batches)
        self._sent_at[leader] = time.monotonic()

    def _take_answer(self, address: Address, wait_s: float) -> None:
        connection = self._connections[address]
        if not connection.has_answer(wait_s):
            if time.monotonic() - self._sent_at[address] > ANSWER_WITHIN_S:
                self._lose(address, self._in_flight.pop(address), f"{connection.address} does not answer Produce")
            return
        places = self._in_flight.pop(address)
        try:
            produced = receive_produce(connection)
        except BrokerUnreachable as error:
            self._lose(address, places, str(error))
            return
        for place in places:
            self._settle(place, produced[place])

    def _settle(self, place: TopicPartition, result: ProducedBatch) -> None:
        name = f"Produce to {place.topic}-{place.partition}"
        queue = self._queues[place]
        if result.code not in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            try:
                refuse(name, result.code, result.message)
            except Refused as error:
                if not error.is_retriable:
                    raise
                self._cluster.forget_leader(*place)
                self._back_off(place, str(error))
            return
        self.queued_bytes -= _size(queue.batches.popleft())
        queue.last_base_offset = result.base_offset
        queue.waits_since = 0.0
        self._pause = BACKOFF_S

    def _lose(self, address: Address, places: Sequence[TopicPartition], why: str) -> None:
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()
        self._cluster.drop(address)
        for place in places:
            self._back_off(place, why)

    def _back_off(self, place: TopicPartition, why: str) -> None:
        """A batch stays first in its queue. Raises SinkError if that lasts too long."""
        queue = self._queues[place]
        queue.waits_since = queue.waits_since or time.monotonic()
        if time.monotonic() - queue.waits_since > DELIVER_WITHIN_S:
            raise SinkError(f"{place.topic}-{place.partition} took no records for {DELIVER_WITHIN_S:g} s: {why}")
        time.sleep(self._pause)
        self._pause = min(2 * self._pause, BACKOFF_MAX_S)

    def _is_in_flight(self, place: TopicPartition) -> bool:
        return any(place in places for places in self._in_flight.values())

    def _add_partitions(self, places: Sequence[TopicPartition]) -> None:
        if not places:
            return
        topics: dict[str, list[int]] = {}
        for place in places:
            topics.setdefault(place.topic, []).append(place.partition)
        request = add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._producer.producer_id,
            v3_and_below_producer_epoch=self._producer.producer_epoch,
            v3_and_below_topics=[add_partitions_to_txn.AddPartitionsToTxnTopic(*topic) for topic in topics.items()],
        )

        def attempt() -> None:
            response = self._coordinator_answer(
                add_partitions_to_txn, ApiKey.ADD_PARTITIONS_TO_TXN, ADD_PARTITIONS_VERSION, request
            )
            for topic in response.results_by_topic_v3_and_below:
                for result in topic.results_by_partition:
                    self._refuse_for_coordinator("AddPartitionsToTxn", result.partition_error_code)

        self._cluster.retrying("AddPartitionsToTxn", attempt)
        self._added.update(places)

    def _end(self, *, committed: bool) -> None:
        request = end_txn.EndTxnRequest(
            self.transactional_id, self._producer.producer_id, self._producer.producer_epoch, committed
        )
        self._cluster.retrying("EndTxn", lambda: self._ask_coordinator(end_txn, ApiKey.END_TXN, END_TXN_VERSION, request))

    def _ask_coordinator(self, module: Any, key: ApiKey, version: int, request: object) -> Any:
        response = self._coordinator_answer(module, key, version, request)
        self._refuse_for_coordinator(key.name, response.error_code)
        return response

    def _coordinator_answer(self, module: Any, key: ApiKey, version: int, request: object) -> Any:
        return self._cluster.ask_coordinator(self.transactional_id, module, key, version, request)

    def _refuse_for_coordinator(self, request: str, code: int) -> None:
        """Also forgets a coordinator that says it is none."""
        if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            self._cluster.forget_coordinator(self.transactional_id)
        refuse(request, code)


def _size(buffers: Sequence[Any]) -> int:
    return sum(len(buffer) for buffer in buffers)
