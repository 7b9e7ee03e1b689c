"""ConsumerGroupHeartbeat requests to a staged coordinator."""

from libs.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.group_coordinator.offsets.stage import GroupStage
from tests.group_coordinator.one_shard import CoordinatorRequest


def beat(stage: GroupStage, member_id: str, epoch: int = 0, *topics: str, name: str = "g") -> CoordinatorRequest:
    joins = epoch == 0
    request = ConsumerGroupHeartbeatRequest(
        name, member_id, epoch, None, None, 60_000 if joins else -1, list(topics) if joins else None, None, None,
        [] if joins else None,
    )  # fmt: skip
    return stage.ask(request, 1)


def join_consumer(stage: GroupStage, *topics: str, name: str = "g", member_id: str = "m") -> int:
    """The only member of its group, and its epoch."""
    pending = beat(stage, member_id, 0, *topics, name=name)
    assert pending.error == 0, pending.reply
    return int(pending.reply.member_epoch)
