"""The errors in a response are found wherever they stand."""

import pytest

from libs.wire.messages.api_versions import ApiVersionsResponse
from libs.wire.messages.heartbeat import HeartbeatResponse
from libs.wire.messages.leave_group import LeaveGroupResponse, MemberResponse
from libs.wire.messages.list_offsets import ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse
from libs.wire.messages.metadata import MetadataPartition, MetadataResponse, MetadataTopic
from libs.wire.response_errors import errors_in


@pytest.mark.parametrize(
    ("response", "errors"),
    [
        (HeartbeatResponse(), []),
        (HeartbeatResponse(error_code=25), [25]),
        (
            LeaveGroupResponse(0, 15, [MemberResponse("a", None, 25), MemberResponse("b"), MemberResponse("c", None, 25)]),
            [15, 25, 25],
        ),
        (ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [ListOffsetsPartitionResponse(0, 3)])]), [3]),
        (MetadataResponse([], None, 1, [MetadataTopic(0, "t", partitions=[MetadataPartition(5, 0, -1, 0, (), ())])]), [5]),
        (ApiVersionsResponse(), []),
        (None, []),
        (b"\0\1", []),
    ],
)
def test_errors_are_found_at_every_depth(response: object, errors: list[int]) -> None:
    assert errors_in(response) == errors
