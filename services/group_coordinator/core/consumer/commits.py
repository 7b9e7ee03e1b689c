"""Facts about a consumer group that offsets need: whether a commit or a fetch is allowed."""

from typing import Final

from libs.wire.errors import ErrorCode
from services.group_coordinator.core.consumer.group import Group

MEMBER_EPOCHS_FROM: Final = 9
"""Version of OffsetCommit that knows STALE_MEMBER_EPOCH. Members of consumer groups may not use an older one."""


def commit_error(group: Group, member_id: str, epoch: int, version: int) -> ErrorCode:
    if epoch < 0 and not group.members:
        return ErrorCode.NONE  # an operator, or a consumer without group membership
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member.classic is None and version < MEMBER_EPOCHS_FROM:
        return ErrorCode.UNSUPPORTED_VERSION
    if epoch == member.epoch:
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION


def transactional_commit_error(group: Group, member_id: str, instance_id: str | None, epoch: int) -> ErrorCode:
    """As in Kafka, a producer that names no member may commit. Clients do not know STALE_MEMBER_EPOCH here."""
    if epoch < 0 and (not group.members or (not member_id and instance_id is None)):
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch == member.epoch else ErrorCode.ILLEGAL_GENERATION


def fetch_error(group: Group, member_id: str | None, epoch: int) -> ErrorCode:
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(member_id) if member_id is not None else None
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if epoch == member.epoch:
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
