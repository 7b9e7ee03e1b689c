"""A member of a group on kafka-python: reads, says what it read, commits it; leaves on SIGTERM."""

import warnings

from member_events import Positions, arguments, say, say_assigned, say_consumed, say_revoked, until_sigterm

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.errors import KafkaError

ASSIGNORS = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}


class Listener(ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned: "set[TopicPartition]") -> None:
        say_assigned([(where.topic, where.partition) for where in assigned])

    def on_partitions_revoked(self, revoked: "set[TopicPartition]") -> None:
        gone = [(where.topic, where.partition) for where in revoked]
        positions.forget(gone)
        say_revoked(gone)


def commit(offsets: dict[tuple[str, int], int]) -> None:
    consumer.commit({TopicPartition(*at): OffsetAndMetadata(offset, "", -1) for at, offset in offsets.items()})


asked, leaving = arguments(), until_sigterm()
positions = Positions()
consumer = KafkaConsumer(
    bootstrap_servers=asked.bootstrap_server,
    group_id=asked.group_id,
    group_instance_id=asked.group_instance_id,
    partition_assignment_strategy=[ASSIGNORS[asked.assignment_strategy]],
    session_timeout_ms=asked.session_timeout,
    heartbeat_interval_ms=300,
    enable_auto_commit=False,
    auto_offset_reset="earliest",
    metadata_max_age_ms=500,
    fetch_max_wait_ms=100,
)
consumer.subscribe([asked.topic] if asked.topic else (), pattern=asked.pattern, listener=Listener())
say("startup_complete")
while not leaving.is_set():
    # In short polls kafka-python 3.0 forgets a rebalance whose answer comes in between, and is thrown out.
    found = {where: messages for where, messages in consumer.poll(timeout_ms=1_000).items() if messages}
    if found:
        ranges = {(at.topic, at.partition): (messages[0].offset, messages[-1].offset) for at, messages in found.items()}
        say_consumed(ranges)
        positions.note_read(ranges)
    if positions:
        positions.commit(commit, KafkaError)
consumer.close(autocommit=False)
say("shutdown_complete")
