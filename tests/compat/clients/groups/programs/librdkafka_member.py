"""A member of a group on librdkafka: reads, says what it read, commits it; leaves on SIGTERM."""

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from member_events import Positions, arguments, say, say_assigned, say_consumed, say_revoked, until_sigterm

AT_ONCE = 200
asked, leaving = arguments(), until_sigterm()
settings: dict[str, object] = {
    "bootstrap.servers": asked.bootstrap_server,
    "group.id": asked.group_id,
    "group.protocol": asked.group_protocol,
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "topic.metadata.refresh.interval.ms": 500,
    "fetch.wait.max.ms": 100,
}
if asked.group_instance_id:
    settings["group.instance.id"] = asked.group_instance_id
if asked.group_protocol == "classic":
    settings |= {"partition.assignment.strategy": asked.assignment_strategy, "heartbeat.interval.ms": 300}
    settings["session.timeout.ms"] = asked.session_timeout
consumer = Consumer(settings)
read: list[Message] = []
positions = Positions()


def settle() -> None:
    """Says what was read since, and commits what is not committed."""
    ranges: dict[tuple[str, int], tuple[int, int]] = {}
    for message in read:
        where = (message.topic(), message.partition())
        ranges[where] = (ranges.get(where, (message.offset(), 0))[0], message.offset())
    read.clear()
    if ranges:
        say_consumed(ranges)
        positions.note_read(ranges)
    if positions:
        positions.commit(commit, KafkaException)


def commit(offsets: dict[tuple[str, int], int]) -> None:
    consumer.commit(offsets=[TopicPartition(*where, offset) for where, offset in offsets.items()], asynchronous=False)


def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
    say_assigned([(where.topic, where.partition) for where in partitions])


def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
    settle()
    give_up(partitions)


def lost(_: Consumer, partitions: list[TopicPartition]) -> None:
    read.clear()
    give_up(partitions)


def give_up(partitions: list[TopicPartition]) -> None:
    gone = [(where.topic, where.partition) for where in partitions]
    positions.forget(gone)
    say_revoked(gone)


consumer.subscribe([asked.topic or f"^{asked.pattern}"], on_assign=assigned, on_revoke=revoked, on_lost=lost)
say("startup_complete")
while not leaving.is_set():
    message = consumer.poll(0.05)
    if message is None:
        settle()
    elif message.error():
        say("error", error=str(message.error()))
    else:
        read.append(message)
        if len(read) >= AT_ONCE:
            settle()
settle()
consumer.close()
say("shutdown_complete")
