"""A coordinator of one shard with classic groups alone, on a log in memory, and clients that ask it."""

from collections.abc import Callable, Iterable
from typing import Any

from libs.coordinator.core.decisions import Decision, Expired, KeyValue
from libs.coordinator.core.tables import Journal
from libs.coordinator.core.timers import TimerKey
from libs.wire.errors import ErrorCode
from libs.wire.messages.heartbeat import HeartbeatRequest
from libs.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from libs.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from libs.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from libs.wire.record_batches.keyed_batches import TransactionalBatch
from services.group_coordinator.core.classic.classic_groups import ClassicGroups
from services.group_coordinator.core.classic.group import Group
from services.group_coordinator.core.model.classic_settings import ClassicSettings
from services.group_coordinator.core.model.requests import RequestEvent
from services.group_coordinator.core.model.topics_view import TopicsView
from services.group_coordinator.core.record_formats import record_codec
from tests.group_coordinator.one_shard import CoordinatorRequest, OneShard


class ClassicMachine:
    def __init__(self, journal: Journal, settings: ClassicSettings, topics: Callable[[], TopicsView]) -> None:
        self.classic = ClassicGroups(journal, lambda: settings, topics)

    def decide(self, event: RequestEvent | Expired, now_ms: int) -> Decision[Any, Any]:
        if isinstance(event, Expired):
            return self.classic.expired(event.key, now_ms)
        match event.request:
            case JoinGroupRequest() as request:
                return self.classic.decide_join(event, request, now_ms)
            case SyncGroupRequest() as request:
                return self.classic.decide_sync(event, request, now_ms)
            case HeartbeatRequest() as request:
                return self.classic.decide_heartbeat(event, request, now_ms)
            case LeaveGroupRequest() as request:
                return self.classic.decide_leave(event, request, now_ms)
        raise AssertionError(event)

    def decide_smaller(self, event: RequestEvent | Expired, now_ms: int) -> Decision[Any, Any] | None:
        return None

    def replay(self, record: Any) -> None:
        assert self.classic.replay(record)

    def encode(self, record: Any) -> KeyValue | None:
        return record_codec.encode(record)

    def decode(self, key: bytes, value: bytes | None, transaction: TransactionalBatch | None) -> Any:
        return record_codec.decode(key, value)

    def timers(self, now_ms: int) -> Iterable[tuple[TimerKey, int]]:
        return self.classic.timers(now_ms)


class Stage(OneShard):
    topics = TopicsView()

    def __init__(self, *, initial_delay_ms: int = 0, size_max: int = 1000) -> None:
        self.settings = ClassicSettings(initial_delay_ms=initial_delay_ms, size_max=size_max)
        super().__init__()

    def make(self, journal: Journal) -> Any:
        return ClassicMachine(journal, self.settings, lambda: self.topics)

    # -- clients ------------------------------------------------------------------------------------------------------------

    def wait_alive(self, ms: int, *members: tuple[str, int], name: str = "g") -> None:
        """While those members, each with its generation, send heartbeats."""
        until = self.now_ms + ms
        while self.now_ms < until:
            self.wait(min(2000, until - self.now_ms))
            for member_id, generation in members:
                self.heartbeat(member_id, generation, name=name)

    def ask(self, request: Any, version: int, client_id: str = "c") -> CoordinatorRequest:
        pending = CoordinatorRequest(request)
        self.submit(pending, version, client_id)
        return pending

    def join(
        self,
        member_id: str = "",
        *,
        name: str = "g",
        version: int = 9,
        instance: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = (("range", b"t"),),
        kind: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        reason: str | None = None,
    ) -> CoordinatorRequest:
        offered = [JoinGroupRequestProtocol(protocol, metadata) for protocol, metadata in protocols]
        return self.ask(JoinGroupRequest(name, session_ms, rebalance_ms, member_id, instance, kind, offered, reason), version)

    def come(self, **how: Any) -> tuple[str, CoordinatorRequest]:
        """Joins a dynamic member: it gets its id first, and joins with that."""
        refused = self.join(**how)
        assert refused.error == ErrorCode.MEMBER_ID_REQUIRED, refused.error
        member_id = refused.reply.member_id
        return member_id, self.join(member_id, **how)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        name: str = "g",
        instance: str | None = None,
        kind: str | None = None,
        protocol: str | None = None,
    ) -> CoordinatorRequest:
        given = [SyncGroupRequestAssignment(who, what) for who, what in (assignments or {}).items()]
        version = 4 if kind is None or protocol is None else 5
        return self.ask(SyncGroupRequest(name, generation, member_id, instance, kind, protocol, given), version)

    def heartbeat(self, member_id: str, generation: int, *, name: str = "g", instance: str | None = None) -> int:
        return self.ask(HeartbeatRequest(name, generation, member_id, instance), 4).error

    def leave(self, *who: str | tuple[str, str | None], name: str = "g", reason: str | None = None) -> LeaveGroupResponse:
        members = [MemberIdentity(item, None, reason) if isinstance(item, str) else MemberIdentity(*item, reason) for item in who]
        reply = self.ask(LeaveGroupRequest(name, members), 5).reply
        assert isinstance(reply, LeaveGroupResponse)
        return reply

    # -- scenes -------------------------------------------------------------------------------------------------------------

    @property
    def classic(self) -> ClassicGroups:
        machine: Any = self.shard.machine
        result = machine.classic
        assert isinstance(result, ClassicGroups)
        return result

    @property
    def groups(self) -> dict[str, Group]:
        return self.classic.groups

    def group(self, name: str = "g") -> Group:
        return self.groups[name]

    def state(self, name: str = "g") -> str:
        return self.group(name).state.value

    def stable(self, size: int = 1, **how: Any) -> tuple[list[str], int]:
        """A new group of dynamic members, the leader first, each assigned its number."""
        self.stopped = True
        ids = [self.join(**how).reply.member_id for _ in range(size)]
        askings = [self.join(member_id, **how) for member_id in ids]
        self.stopped = False
        self.settle()
        while askings[0].waits:
            self.wait(self.settings.initial_delay_ms)
        return self.agree(askings)

    def agree(self, joins: list[CoordinatorRequest]) -> tuple[list[str], int]:
        """All of these were answered as one generation: they sync."""
        replies: list[JoinGroupResponse] = [pending.reply for pending in joins]
        assert [reply.error_code for reply in replies] == [0] * len(joins)
        (generation,) = {reply.generation_id for reply in replies}
        (leader,) = {reply.leader for reply in replies}
        ids = sorted([reply.member_id for reply in replies], key=lambda member_id: member_id != leader)
        given = {member_id: str(number).encode() for number, member_id in enumerate(ids)}
        name = joins[0].request.group_id
        followers = [self.sync(member_id, generation, name=name) for member_id in ids[1:]]
        led = self.sync(leader, generation, given, name=name)
        for number, pending in enumerate([led, *followers]):
            assert isinstance(pending.reply, SyncGroupResponse)
            assert pending.error == 0
            assert pending.reply.assignment == str(number).encode()
        assert self.state(name) == "Stable"
        return ids, generation
