"""A machine for tests of what is around machines: it lets joins wait, counts heartbeats, and keeps nothing else."""

from collections.abc import Iterable
from dataclasses import dataclass

from libs.coordinator.core.decisions import Decision, Expired, KeyValue
from libs.coordinator.core.tables import Journal, Table
from libs.coordinator.core.timers import TimerKey
from libs.wire.messages.describe_groups import DescribeGroupsResponse
from libs.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from libs.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from libs.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from libs.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from libs.wire.record_batches.keyed_batches import TransactionalBatch
from services.group_coordinator.coordinator import MachineInputs
from services.group_coordinator.core.model.requests import Reply, RequestEvent


@dataclass(frozen=True)
class Counted:
    group: str
    count: int


class Counting:
    """Heartbeat: the next number of its group, in the log, is the error code of the answer. JoinGroup waits for SyncGroup, which
    names it. An instance id "break" makes it raise; "unwritable", give an answer that its version cannot have."""

    def __init__(self, journal: Journal, known: MachineInputs) -> None:
        self.known = known
        self.counts: Table[str, int] = Table(journal)
        self.asked: list[RequestEvent] = []

    def decide(self, event: RequestEvent | Expired, now_ms: int) -> Decision[Reply, Counted]:
        assert isinstance(event, RequestEvent)
        self.asked.append(event)
        match event.request:
            case HeartbeatRequest(group_instance_id="break"):
                raise RuntimeError("broken on purpose")
            case HeartbeatRequest(group_instance_id="unwritable"):
                return Decision(DescribeGroupsResponse())
            case HeartbeatRequest(group_id=name):
                count = self.counts.get(name, 0) + 1
                return Decision(HeartbeatResponse(error_code=count), [Counted(name, count)])
            case JoinGroupRequest(group_id=name):
                return Decision(parks_as=name)
            case SyncGroupRequest(group_id=name, member_id=member_id):
                return Decision(SyncGroupResponse(), wakes=[(name, JoinGroupResponse(member_id=member_id))])
            case ListGroupsRequest():
                return Decision(ListGroupsResponse(groups=[ListedGroup(name) for name in self.counts]))
        raise AssertionError(event)

    def decide_smaller(self, event: RequestEvent | Expired, now_ms: int) -> Decision[Reply, Counted] | None:
        return None

    def replay(self, record: Counted) -> None:
        self.counts[record.group] = record.count

    def encode(self, record: Counted) -> KeyValue | None:
        return KeyValue(record.group.encode(), str(record.count).encode())

    def decode(self, key: bytes, value: bytes | None, transaction: TransactionalBatch | None) -> Counted | None:
        return Counted(key.decode(), int(value or 0))

    def timers(self, now_ms: int) -> Iterable[tuple[TimerKey, int]]:
        return ()
