"""The same heartbeats to Kafka and to our core, and what both write."""

import itertools
import socket
import time
from dataclasses import replace
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from libs.coordinator.core.shard_hashing import shard_of
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.headers import RequestHeader, read_response_header, write_request_header
from libs.wire.messages import (
    consumer_group_describe,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    describe_groups,
    find_coordinator,
)
from libs.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from libs.wire.primitives import Reader, Writer
from services.group_coordinator.core.model import records
from services.group_coordinator.core.model.group_kind import Kind
from services.group_coordinator.core.model.records import (
    CurrentAssignmentChanged,
    RegularExpressionResolved,
    TargetAssignmentChanged,
)
from services.group_coordinator.core.model.topics_view import TopicsView, TopicView
from services.group_coordinator.core.record_formats import record_codec
from services.group_coordinator.core.simple.simple_groups import NoGroup
from tests.compat.kafka.broker import KafkaBroker
from tests.group_coordinator.consumer.stage import Stage

CLIENT_ID = "beside"
SHARDS = 50
_NUMBERS = itertools.count()
LOADING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)


class Both:
    """One group with topics of its own, in two coordinators. Topics are named "t", "u": their real names are longer."""

    def __init__(self, kafka: KafkaBroker, **topics: int) -> None:
        self.run = f"{time.time_ns():x}-{next(_NUMBERS)}"
        self.group = f"g-{self.run}"
        self._socket = socket.create_connection(("127.0.0.1", kafka.port), timeout=30)
        self._bootstrap = kafka.bootstrap
        self._correlation = itertools.count()
        self.stage = Stage()
        self.ids: dict[str, bytes] = {}
        self.partitions: dict[str, int] = {}
        self.create(**topics)

    def close(self) -> None:
        self._socket.close()

    def real(self, topic: str) -> str:
        return f"{topic}-{self.run}"

    def create(self, **topics: int) -> None:
        expected = [create_topics.CreatableTopic(self.real(name), count, 1) for name, count in topics.items()]
        if expected:
            answer = self._call(ApiKey.CREATE_TOPICS, 7, create_topics.CreateTopicsRequest(expected), create_topics)
            for made in answer.topics:
                assert made.error_code == 0, made
                self.ids[made.name.removesuffix(f"-{self.run}")] = made.topic_id
        self.partitions |= topics
        self._show()
        self._kafka_knows()

    def grow(self, topic: str, count: int) -> None:
        expected = [create_partitions.CreatePartitionsTopic(self.real(topic), count, None)]
        answer = self._call(
            ApiKey.CREATE_PARTITIONS, 3, create_partitions.CreatePartitionsRequest(expected, 30_000), create_partitions
        )
        assert [result.error_code for result in answer.results] == [0]
        self.partitions[topic] = count
        self._show()
        self._kafka_knows()

    def _kafka_knows(self) -> None:
        """A topic is made, and Kafka's coordinator hears of it a little later: another group waits for that."""
        self._call(ApiKey.FIND_COORDINATOR, 4, find_coordinator.FindCoordinatorRequest("", 0, [self.group]), find_coordinator)
        names = [self.real(name) for name in self.partitions]
        for number in range(600):
            probe = ConsumerGroupHeartbeatRequest(f"p-{self.run}-{number}", "p", 0, None, None, 1000, names, None, "range", [])
            given = self._ask_kafka(probe, 1).assignment
            if sum(len(topic.partitions) for topic in given.topic_partitions) == sum(self.partitions.values()):
                return
            time.sleep(0.02)
        raise AssertionError("Kafka does not see its topics")

    def _show(self) -> None:
        self.stage.topics = TopicsView.of(
            self.stage.topics.version + 1,
            [TopicView(self.ids[name], self.real(name), count) for name, count in self.partitions.items()],
        )

    # -- asking -------------------------------------------------------------------------------------------------------------

    def ask(
        self,
        member: str,
        epoch: int,
        *,
        owned: dict[str, list[int]] | None = None,
        topics: str | None = None,
        instance: str | None = None,
        rebalance_ms: int = -1,
        regex: str | None = None,
        assignor: str | None = None,
        group: str | None = None,
        rack: str | None = None,
        version: int = 1,
    ) -> tuple[Any, Any]:
        """The answers (Kafka's, ours) in the same terms. `topics`: names, separated by spaces."""
        request = ConsumerGroupHeartbeatRequest(
            self.group if group is None else group,
            member,
            epoch,
            instance,
            rack,
            rebalance_ms,
            None if topics is None else [self.real(name) for name in topics.split()],
            regex,
            assignor,
            None if owned is None else [TopicPartitions(self.ids[name], numbers) for name, numbers in owned.items()],
        )
        theirs = self._ask_kafka(request, version)
        ours = self.stage.ask(request, version, CLIENT_ID).reply
        return self._plain(theirs), self._plain(ours)

    def join(self, member: str, topics: str | None, **how: Any) -> tuple[Any, Any]:
        return self.ask(member, 0, topics=topics, **({"owned": {}, "rebalance_ms": 60_000, "assignor": "range"} | how))

    def _ask_kafka(self, request: ConsumerGroupHeartbeatRequest, version: int) -> Any:
        for _ in range(600):
            answer = self._call(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, request, consumer_group_heartbeat)
            if answer.error_code not in LOADING:
                return answer
            time.sleep(0.1)
        raise AssertionError("Kafka does not serve the group")

    def _plain(self, answer: Any) -> Any:
        names = {topic_id: name for name, topic_id in self.ids.items()}
        given = answer.assignment
        assigned = None
        if given is not None:
            assigned = {names[topic.topic_id]: sorted(topic.partitions) for topic in given.topic_partitions}
        if answer.error_code:
            return answer.error_code, answer.error_message
        return answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms, assigned

    def describe(self, group: str | None = None) -> tuple[Any, Any]:
        """The answer of ConsumerGroupDescribe."""
        name = self.group if group is None else group
        request = consumer_group_describe.ConsumerGroupDescribeRequest([name])
        (theirs,) = self._call(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, request, consumer_group_describe).groups
        ours: Kind = self.stage.consumer if name in self.stage.consumer.groups else NoGroup()
        return _in_order(theirs), _in_order(ours.describe_as_consumer_group(name, 1))

    def describe_as_classic(self) -> tuple[Any, Any]:
        """The answer of DescribeGroups, which is for other kinds of groups."""
        answers = []
        for version in (5, 6):
            request = describe_groups.DescribeGroupsRequest([self.group])
            answers += self._call(ApiKey.DESCRIBE_GROUPS, version, request, describe_groups).groups
        return answers, [self.stage.consumer.describe_as_classic_group(self.group, version) for version in (5, 6)]

    def _call(self, key: ApiKey, version: int, request: Any, module: Any) -> Any:
        writer = Writer()
        write_request_header(writer, RequestHeader(key, version, next(self._correlation), CLIENT_ID))
        module.write_request(writer, request, version)
        body = bytes(writer.buffer)
        self._socket.sendall(len(body).to_bytes(4, "big") + body)
        frame = self._read(int.from_bytes(self._read(4), "big"))
        reader = Reader(memoryview(frame))
        read_response_header(reader, key, version)
        return module.read_response(reader, version)

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            assert more, "Kafka closed the connection"
            data += more
        return data

    # -- records ------------------------------------------------------------------------------------------------------------

    def kafkas_records(self) -> list[Any]:
        """The records of this group in Kafka's log."""
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "reads-records", "enable.partition.eof": True})
        consumer.assign([TopicPartition("__consumer_offsets", shard_of(self.group, SHARDS), 0)])
        matches = []
        try:
            while True:
                message = consumer.poll(30)
                assert message is not None, "Kafka's log cannot be read"
                if message.error() is not None:  # the end
                    return matches
                record = record_codec.decode(message.key(), message.value())
                if record is not None and record.group == self.group:
                    matches.append(_comparable(record))
        finally:
            consumer.close()

    def our_records(self) -> list[Any]:
        return [_comparable(record) for record in self.stage.written()]


def _in_order(group: consumer_group_describe.DescribedGroup) -> Any:
    for member in group.members:
        member.subscribed_topic_names.sort()
        for assignment in (member.assignment, member.target_assignment):
            assignment.topic_partitions.sort(key=lambda topic: topic.topic_id)
            for topic in assignment.topic_partitions:
                topic.partitions.sort()
    group.members.sort(key=lambda member: member.member_id)
    return group


def _comparable(record: Any) -> Any:
    """Kafka's versions and times are others, and it writes topics in the order of its hash maps."""
    if isinstance(record, RegularExpressionResolved):
        return replace(record, topics=tuple(sorted(record.topics)), version=0, resolved_ms=0)
    if isinstance(record, TargetAssignmentChanged):
        return replace(record, assigned=_sorted(record.assigned))
    if isinstance(record, CurrentAssignmentChanged):
        return replace(record, assigned=_sorted(record.assigned), pending_revocation=_sorted(record.pending_revocation))
    return record


def _sorted(matches: tuple[records.TopicPartitions, ...]) -> tuple[records.TopicPartitions, ...]:
    return tuple(records.TopicPartitions(topic, tuple(sorted(partitions))) for topic, partitions in sorted(matches))
