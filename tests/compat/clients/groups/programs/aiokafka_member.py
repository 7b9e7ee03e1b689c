"""A member of a group on aiokafka: reads, says what it read, commits it; leaves on SIGTERM."""

import asyncio

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError
from member_events import arguments, say, say_assigned, say_committed, say_consumed, say_revoked, until_sigterm


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, settled: asyncio.Lock) -> None:
        self._settled = settled

    async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        async with self._settled:  # what was read is committed before others may read it
            say_revoked([(where.topic, where.partition) for where in revoked])

    async def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        say_assigned([(where.topic, where.partition) for where in assigned])


async def run() -> None:
    asked, leaving, settled = arguments(), until_sigterm(), asyncio.Lock()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=asked.bootstrap_server,
        group_id=asked.group_id,
        group_instance_id=asked.group_instance_id,
        partition_assignment_strategy=[RangePartitionAssignor],
        session_timeout_ms=asked.session_timeout,
        heartbeat_interval_ms=300,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        metadata_max_age_ms=500,
        fetch_max_wait_ms=100,
    )
    consumer.subscribe([asked.topic] if asked.topic else (), pattern=asked.pattern, listener=Listener(settled))
    await consumer.start()
    say("startup_complete")
    while not leaving.is_set():
        found = {where: messages for where, messages in (await consumer.getmany(timeout_ms=50)).items() if messages}
        if not found:
            continue
        async with settled:
            say_consumed({(at.topic, at.partition): (msgs[0].offset, msgs[-1].offset) for at, msgs in found.items()})
            following = {(at.topic, at.partition): msgs[-1].offset + 1 for at, msgs in found.items()}
            try:
                await consumer.commit({TopicPartition(*at): offset for at, offset in following.items()})
            except KafkaError as error:
                say_committed(following, repr(error))
            else:
                say_committed(following)
    await consumer.stop()
    say("shutdown_complete")


asyncio.run(run())
