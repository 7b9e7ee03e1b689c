"""One Kafka broker in three lives serves all tests here that judge by a broker: its starts and stops take longer than their work.

It writes, and stops cleanly; it serves what it was given meanwhile, and is killed; it recovers, and stops.
"""

import signal
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from libs.commitlog.checkpoints.offset_checkpoint import format_entries, parse_entries
from tests.compat.kafka.broker import QUICK, KafkaBroker

PROPERTIES = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "log.retention.ms": "-1",  # our timestamps are old, and records that retention took would be missing
    "log.segment.bytes": str(1 << 20),
    "log.cleaner.backoff.ms": "200",
    "log.initial.task.delay.ms": "500",
}


class Judged:
    """The steps that a test module has the broker do, and their results. `data` is its log directory."""

    def topics(self) -> list[NewTopic]:
        raise NotImplementedError

    def write(self, broker: KafkaBroker) -> None:
        """Runs while the broker runs for the first time."""

    def stopped(self, data: Path) -> None:
        """Runs after the broker's first, clean stop."""

    def read(self, broker: KafkaBroker) -> None:
        """Runs while the broker runs for the second time."""

    def killed(self, data: Path) -> None:
        """Runs after the broker was killed."""

    def read_recovered(self, broker: KafkaBroker) -> None:
        """Runs while the broker runs for the third time."""


def live(directory: Path, judged: Sequence[Judged]) -> None:
    with KafkaBroker(directory, properties=PROPERTIES, options=QUICK) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for created in admin.create_topics([topic for each in judged for topic in each.topics()]).values():
            created.result(60)
        for each in judged:
            each.write(broker)
        broker.stop()
        for each in judged:
            each.stopped(broker.log_directory)
        for checkpoint in broker.log_directory.glob("*-offset-checkpoint"):  # with the lines that ours have, too
            entries = parse_entries(checkpoint.read_bytes(), checkpoint.name)
            ours = {name: entry._replace(topic_id=bytes(range(16))) for name, entry in entries.items()}
            checkpoint.write_bytes(format_entries(ours))
        broker.start()
        for each in judged:
            each.read(broker)
        broker.stop(number=signal.SIGKILL)
        for each in judged:
            each.killed(broker.log_directory)
        broker.start()
        for each in judged:
            each.read_recovered(broker)
