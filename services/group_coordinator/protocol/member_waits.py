"""The waits of members for each other, as telemetry hears of them."""

from typing import NamedTuple

from libs.telemetry.tracing.span import SpanContext
from libs.wire.api_keys import ApiKey


class MemberWait(NamedTuple):
    """One member's JoinGroup or SyncGroup, in loop time."""

    group: str
    api_key: ApiKey
    member_id: str
    client_id: str
    arrived_at: float
    answered_at: float
    error: int
    span: SpanContext | None
    """Of the request in its own trace, if somebody decided on one."""
