"""Consumers that copy a topic in transactions: each has some records, and the position behind them. They share a group."""

import threading

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.compat.clients.transactions.transactional import KEEPS_BROKERS, opened_amid_faults, rewind, until_done

RECORDS_MAX = 50
WAIT_FOR_RECORDS_S = 0.2


class Copier:
    """`name` is its transactional id. It goes on until `over`, whatever happens to the cluster.

    After silence of `session_ms` it is no member any more, and its next commit in a transaction fails with UNKNOWN_MEMBER_ID.
    """

    def __init__(self, bootstrap: str, name: str, source: str, target: str, *, session_ms: int = 10_000) -> None:
        self._bootstrap, self._name, self._source, self._target = bootstrap, name, source, target
        self._session_ms = session_ms
        self.aborts: list[str] = []
        """Why transactions were aborted, one line each."""
        self.errors: list[str] = []

    def run(self, over: threading.Event) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": f"copiers-of-{self._source}",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "session.timeout.ms": self._session_ms,
                "log_level": 0,
            }
        )
        # With a callback the group's generation changes in `consume` alone, so it is that of the records.
        consumer.subscribe([self._source], on_revoke=lambda *_: None)
        producer = self._opened()
        while not over.is_set():
            messages = [each for each in consumer.consume(RECORDS_MAX, WAIT_FOR_RECORDS_S) if each.error() is None]
            if not messages:
                continue
            try:
                self._copy(consumer, producer, messages)
            except KafkaException as failure:
                self.aborts.append(str(failure))
                if failure.args[0].txn_requires_abort():
                    until_done(producer.abort_transaction)
                else:
                    self.errors.append(str(failure))
                    producer = self._opened()
                self._rewind(consumer)
        consumer.close()

    def _opened(self) -> Producer:
        return opened_amid_faults(self._bootstrap, self._name, **KEEPS_BROKERS, **{"transaction.timeout.ms": 10_000})

    def _copy(self, consumer: Consumer, producer: Producer, messages: list[Message]) -> None:
        metadata = consumer.consumer_group_metadata()
        producer.begin_transaction()
        behind: dict[int, int] = {}
        for message in messages:
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            producer.produce(self._target, message.value(), partition=partition)
            behind[partition] = offset + 1
        position = [TopicPartition(self._source, partition, offset) for partition, offset in behind.items()]
        until_done(lambda wait_s: producer.send_offsets_to_transaction(position, metadata, wait_s))
        until_done(producer.commit_transaction)

    def _rewind(self, consumer: Consumer) -> None:
        """The records that were not copied come again."""
        while True:
            try:
                rewind(consumer)
            except KafkaException as failure:
                self.errors.append(str(failure))
                consumer.consume(0, WAIT_FOR_RECORDS_S)  # a rebalance may have begun
            else:
                return
