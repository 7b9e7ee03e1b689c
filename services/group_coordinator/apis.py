"""The APIs that a group's coordinator decides, in one table: versions, codecs, and which groups a request names."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from libs.rpc.contracts.groups import ELEMENTS_MAX
from libs.wire.api import ApiKey
from libs.wire.messages import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from libs.wire.messages.offset_fetch import OffsetFetchRequest
from libs.wire.primitives import Reader, Writer


@dataclass(frozen=True, slots=True)
class Api:
    """Versions are inclusive. `groups` of a request are the ids whose shard it belongs to; none: it asks about a whole shard."""

    name: str
    min_version: int
    max_version: int
    read_request: Callable[[Reader, int], Any]
    write_response: Callable[[Writer, Any, int], None]
    groups: Callable[[Any, int], Sequence[str]]
    wants_id: bool = False
    """Its decision may need an id that nobody had before: that of a new member, or of a deletion."""

    def read(self, body: memoryview, version: int) -> Any:
        """Raises ProtocolError for anything but one whole request."""
        reader = Reader(body)
        reader.elements_left = ELEMENTS_MAX
        request = self.read_request(reader, version)
        reader.expect_end()
        return request

    def written(self, response: object, version: int) -> bytearray:
        """Raises ValueError for what that version has no words for."""
        writer = Writer()
        self.write_response(writer, response, version)
        return writer.buffer


def _one(request: Any, version: int) -> Sequence[str]:
    return (request.group_id,)


def _fetched(request: OffsetFetchRequest, version: int) -> Sequence[str]:
    return [group.group_id for group in request.groups] if version >= 8 else (request.group_id,)


def _none(request: Any, version: int) -> Sequence[str]:
    return ()


APIS: Final[dict[int, Api]] = {
    ApiKey.OFFSET_COMMIT: Api("OffsetCommit", 2, 10, offset_commit.read_request, offset_commit.write_response, _one),
    ApiKey.OFFSET_FETCH: Api("OffsetFetch", 1, 10, offset_fetch.read_request, offset_fetch.write_response, _fetched),
    ApiKey.JOIN_GROUP: Api("JoinGroup", 0, 9, join_group.read_request, join_group.write_response, _one, wants_id=True),
    ApiKey.HEARTBEAT: Api("Heartbeat", 0, 4, heartbeat.read_request, heartbeat.write_response, _one),
    ApiKey.LEAVE_GROUP: Api("LeaveGroup", 0, 5, leave_group.read_request, leave_group.write_response, _one),
    ApiKey.SYNC_GROUP: Api("SyncGroup", 0, 5, sync_group.read_request, sync_group.write_response, _one),
    ApiKey.DESCRIBE_GROUPS: Api(
        *("DescribeGroups", 0, 6, describe_groups.read_request, describe_groups.write_response),
        lambda request, version: request.groups,
    ),
    ApiKey.LIST_GROUPS: Api("ListGroups", 0, 5, list_groups.read_request, list_groups.write_response, _none),
    ApiKey.DELETE_GROUPS: Api(
        *("DeleteGroups", 0, 2, delete_groups.read_request, delete_groups.write_response),
        lambda request, version: request.groups_names,
        wants_id=True,
    ),
    ApiKey.OFFSET_DELETE: Api("OffsetDelete", 0, 0, offset_delete.read_request, offset_delete.write_response, _one),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Api(
        *("ConsumerGroupHeartbeat", 0, 1, consumer_group_heartbeat.read_request, consumer_group_heartbeat.write_response, _one),
        wants_id=True,
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Api(
        *("ConsumerGroupDescribe", 0, 1, consumer_group_describe.read_request, consumer_group_describe.write_response),
        lambda request, version: request.group_ids,
    ),
}
"""By Kafka's number. The versions that a client may use are the gateway's to say: it advertises no others."""
