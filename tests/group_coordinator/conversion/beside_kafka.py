"""The same requests of both protocols to Kafka and to our core, and what both write. Members go by the names of the test."""

from dataclasses import replace
from typing import Any

from libs.wire.api_keys import ApiKey
from libs.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    read_assignment,
    write_assignment,
    write_subscription,
)
from libs.wire.messages import heartbeat, join_group, leave_group, sync_group
from libs.wire.messages.heartbeat import HeartbeatRequest
from libs.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from libs.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from libs.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from services.group_coordinator.core.model.records import (
    ClassicGroupChanged,
    ConsumerMemberChanged,
    CurrentAssignmentChanged,
    TargetAssignmentChanged,
)
from tests.compat.kafka.broker import KafkaBroker
from tests.group_coordinator.consumer import beside_kafka
from tests.group_coordinator.consumer.beside_kafka import CLIENT_ID
from tests.group_coordinator.conversion.stage import Stage

ASSIGNS_ITSELF_BELOW = 4
Topics = dict[str, list[int]]


class Both(beside_kafka.Both):
    def __init__(self, kafka: KafkaBroker, **topics: int) -> None:
        super().__init__(kafka, **topics)
        self.stage: Any = Stage()
        self._show()
        self.theirs: dict[str, str] = {}
        self.ours: dict[str, str] = {}
        """Name → member id. Of members of the consumer protocol they are the same."""
        self.names: dict[str, str] = {}
        """Of all member ids, former ones as well."""

    # -- asking -------------------------------------------------------------------------------------------------------------

    def classic_join(
        self,
        name: str,
        topics: str,
        *,
        owned: Topics | None = None,
        protocols: str = "range",
        version: int = 3,
        instance: str | None = None,
        anew: bool = False,
        kind: str = "consumer",
    ) -> tuple[Any, Any]:
        """Version 3 knows no ids before it has joined, 9 does. `anew`: it does not know its id."""
        has = tuple([TopicPartition(self.real(topic), tuple(numbers)) for topic, numbers in (owned or {}).items()])
        expected = ConsumerProtocolSubscription(tuple([self.real(topic) for topic in topics.split()]), None, has)
        offered = [JoinGroupRequestProtocol(protocol, write_subscription(expected)) for protocol in protocols.split()]

        def request(ids: dict[str, str]) -> JoinGroupRequest:
            member_id = "" if anew else ids.get(name, "")
            return JoinGroupRequest(self.group, 10_000, 60_000, member_id, instance, kind, offered)

        theirs = self._call(ApiKey.JOIN_GROUP, version, request(self.theirs), join_group)
        ours = self.stage.ask(request(self.ours), version, CLIENT_ID).reply
        if theirs.member_id:
            self.theirs[name] = theirs.member_id
            self.names[theirs.member_id] = name
        if ours.member_id:
            self.ours[name] = ours.member_id
            self.names[ours.member_id] = name
        return self._joined(theirs), self._joined(ours)

    def _joined(self, reply: Any) -> Any:
        names = self.names
        if reply.error_code:
            return int(reply.error_code), names.get(reply.member_id, reply.member_id)
        members = sorted(names[member.member_id] for member in reply.members)
        leader = names.get(reply.leader, reply.leader)
        return reply.generation_id, reply.protocol_name, leader, names[reply.member_id], members, reply.skip_assignment

    def sync(
        self,
        name: str,
        generation: int,
        assigned: dict[str, Topics] | None = None,
        *,
        instance: str | None = None,
        kind: str | None = "consumer",
        protocol: str | None = "range",
    ) -> tuple[Any, Any]:
        def request(ids: dict[str, str]) -> SyncGroupRequest:
            given = [SyncGroupRequestAssignment(ids[who], self._written(what)) for who, what in (assigned or {}).items()]
            return SyncGroupRequest(self.group, generation, ids.get(name, name), instance, kind, protocol, given)

        theirs = self._call(ApiKey.SYNC_GROUP, 5, request(self.theirs), sync_group)
        ours = self.stage.ask(request(self.ours), 5, CLIENT_ID).reply
        return self._synced(theirs), self._synced(ours)

    def _written(self, topics: Topics) -> bytes:
        has = tuple([TopicPartition(self.real(topic), tuple(numbers)) for topic, numbers in topics.items()])
        return write_assignment(ConsumerProtocolAssignment(has))

    def _synced(self, reply: Any) -> Any:
        if reply.error_code:
            return int(reply.error_code)
        return reply.protocol_type, reply.protocol_name, self._told(reply.assignment)

    def _told(self, data: Any) -> Any:
        if not data:
            return b""
        given = read_assignment(data)
        answer = {item.topic.removesuffix(f"-{self.run}"): sorted(item.partitions) for item in given.assigned_partitions}
        return dict(sorted(answer.items()))

    def beat(self, name: str, generation: int, *, instance: str | None = None) -> tuple[int, int]:
        def request(ids: dict[str, str]) -> HeartbeatRequest:
            return HeartbeatRequest(self.group, generation, ids.get(name, name), instance)

        theirs = self._call(ApiKey.HEARTBEAT, 4, request(self.theirs), heartbeat)
        return int(theirs.error_code), int(self.stage.ask(request(self.ours), 4, CLIENT_ID).reply.error_code)

    def leave(self, *who: tuple[str, str | None]) -> tuple[Any, Any]:
        def request(ids: dict[str, str]) -> LeaveGroupRequest:
            return LeaveGroupRequest(self.group, [MemberIdentity(ids.get(name, name), instance, "bye") for name, instance in who])

        theirs = self._call(ApiKey.LEAVE_GROUP, 5, request(self.theirs), leave_group)
        ours = self.stage.ask(request(self.ours), 5, CLIENT_ID).reply
        return [int(item.error_code) for item in theirs.members], [int(item.error_code) for item in ours.members]

    # -- records ------------------------------------------------------------------------------------------------------------

    def kafkas_records(self) -> list[Any]:
        """Kafka's records, without those of classic groups that have no members yet: our log does not have them."""
        records = [self._named(record) for record in super().kafkas_records()]
        return self._in_order([item for item in records if not (isinstance(item, ClassicGroupChanged) and item.generation == 0)])

    def our_records(self) -> list[Any]:
        return self._in_order([self._named(record) for record in super().our_records()])

    def _named(self, record: Any) -> Any:
        """The record without the leader of a freshly downgraded group: ours has none (see `downgrade`), Kafka's has any."""
        names = self.names
        if isinstance(record, ClassicGroupChanged):
            members = [
                replace(
                    member,
                    member_id=names.get(member.member_id, member.member_id),
                    assignment=repr(self._told(member.assignment)).encode(),
                )
                for member in record.members
            ]
            members.sort(key=lambda member: member.member_id)
            return replace(record, leader=None, state_changed_ms=0, members=tuple(members))
        if hasattr(record, "member_id"):
            record = replace(record, member_id=names.get(record.member_id, record.member_id))
        return record

    def _in_order(self, records: list[Any]) -> list[Any]:
        """Records in a fixed order: Kafka writes those about all members in the order of its hash maps."""
        kinds = (ConsumerMemberChanged, TargetAssignmentChanged, CurrentAssignmentChanged)
        ordered: list[Any] = []
        run: list[Any] = []
        for record in [*records, None]:
            if run and type(record) is not type(run[0]):
                ordered += sorted(run, key=lambda item: item.member_id) if hasattr(run[0], "member_id") else run
                run = []
            if isinstance(record, kinds) or type(record).__name__.endswith("Removed"):
                run.append(record)
            elif record is not None:
                ordered.append(record)
        return ordered
