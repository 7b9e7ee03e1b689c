"""Members of the classic protocol: they give up all that they have before they join again, and one of them assigns."""

from typing import Any

from libs.wire.errors import ErrorCode
from libs.wire.messages.heartbeat import HeartbeatRequest
from libs.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.simulation.cluster import kafka_groups
from tests.simulation.cluster.group_members import FENCED, HEARTBEAT_S, NOWHERE, SESSION_S, Member
from tests.simulation.cluster.kafka_client import Disconnected

REBALANCE_S = 5.0
JOIN_S = REBALANCE_S + SESSION_S + 2.0


class ClassicMember(Member):
    _joining = False
    """Somewhere between JoinGroup and the answer to SyncGroup."""
    _joined = False
    _beat_at = 0.0

    @property
    def joining(self) -> bool:
        return self._joining

    def _begin(self) -> None:
        self.member_id, self.generation, self._joined = "", -1, False

    def _drop(self) -> None:
        super()._drop()
        self._joined = False

    async def _step(self) -> None:
        if not self._joined and not await self._join():
            return
        error = await self._find_positions(self._assigned)
        if not error and self.now >= self._beat_at:
            error = await self._beat()
        if not error:
            await self._read()
            error = await self._commit_when_due()
        if error:
            await self._react(error)
        await self._think()

    async def _beat(self) -> int:
        self._beat_at = self.now + HEARTBEAT_S
        request = HeartbeatRequest(self.group.name, self.generation, self.member_id, self.instance_id)
        try:
            answer = await self._ask(request)
        except Disconnected:
            await self._pause()
            return 0
        return int(answer.error_code)

    async def _react(self, error: int) -> None:
        if error in NOWHERE:
            await self._pause(error)
        elif error == ErrorCode.REBALANCE_IN_PROGRESS:
            await self._commit_all()
            self._drop()
        elif error in FENCED:
            self._fenced(error)
        elif error > 0:
            self.world.violation(f"7: group {self.group.name}: {self.name} is told {ErrorCode(error).name}")
            self._drop()

    def _fenced(self, error: int) -> None:
        self._sometimes("a member that lives was fenced")
        self._drop()
        if error != ErrorCode.ILLEGAL_GENERATION:
            self.member_id = ""
        self.generation = -1

    async def _join(self) -> bool:
        """Whether it is in a generation, and knows what it has."""
        self._joining = True
        try:
            alone, newest = self.group.alone(), self.promises.newest
            joined = await self._join_answer()
            if joined is None:
                return False
            assigned = []
            if joined.leader == joined.member_id:
                members = [member.member_id for member in joined.members]
                assigned = kafka_groups.taking_turns(members, self.group.partitions)
            request = kafka_groups.sync(self.group.name, joined.generation_id, joined.member_id, self.instance_id, assigned)
            synced = await self._ask(request, JOIN_S)
        except Disconnected:
            await self._pause()
            return False
        finally:
            self._joining = False
        if synced.error_code:
            await self._not_joined(synced.error_code)
            return False
        self.member_id, self.generation, self._joined = joined.member_id, joined.generation_id, True
        self._assigned = kafka_groups.assigned(synced.assignment)
        self._beat_at = self.now + HEARTBEAT_S
        who = self.instance_id or self.member_id
        self.promises.synced(self.generation, who, joined.leader, self._assigned, newest=newest if alone else None)
        return True

    async def _join_answer(self) -> Any:
        request = kafka_groups.join(
            self.group.name,
            self.member_id,
            self.instance_id,
            self.group.topics,
            session_ms=int(SESSION_S * 1000),
            rebalance_ms=int(REBALANCE_S * 1000),
        )
        answer = await self._ask(request, JOIN_S)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif answer.error_code:
            await self._not_joined(answer.error_code)
        else:
            self.member_id = answer.member_id
            return answer
        return None

    async def _not_joined(self, error: int) -> None:
        if error in FENCED:
            self._fenced(error)
        elif error not in NOWHERE and error != ErrorCode.REBALANCE_IN_PROGRESS:
            self.world.violation(f"7: group {self.group.name}: {self.name} joins and is told {ErrorCode(error).name}")
        await self._pause(error)

    async def _leave(self) -> None:
        if self.member_id and (self.instance_id is None or self.stopping):
            request = LeaveGroupRequest(self.group.name, [MemberIdentity(self.member_id, self.instance_id)])
            try:
                await self._ask(request)
            except Disconnected:
                pass
