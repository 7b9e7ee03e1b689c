"""The TRACE lines about groups: each decision about a request or a timer, once it is committed. What it changes for a group is at
INFO (`group_events.py`)."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from libs.coordinator.core.decisions import Decision, Expired
from libs.telemetry.level_switches import TRACE, Switches
from libs.telemetry.logs import fields
from libs.wire.errors import error_name
from libs.wire.response_errors import errors_in
from services.group_coordinator.core.model.requests import Reply, RequestEvent

log = logging.getLogger("groups")

LOGGED: Final = Switches(log)


class GroupDecisionLog:
    """What writes the lines of a shard's machine. They have no metadata of members, no assignments and no offsets."""

    switches = LOGGED

    def line(self, event: RequestEvent | Expired, decision: Decision[Reply, Any]) -> Callable[[], None] | None:
        """The result writes the line of a decision. None: it has none."""
        if not LOGGED.trace:
            return None
        if isinstance(event, Expired):
            details: dict[str, object] = {"timer": str(event.key)}
        else:
            request = event.request
            details = {
                "request": type(request).__name__.removesuffix("Request"),
                "version": event.version,
                "group": getattr(request, "group_id", ""),
                "member_id": getattr(request, "member_id", ""),
                "client_id": event.client_id,
                "client_host": event.client_host,
            }
        reply = decision.reply
        errors = sorted({error_name(error) for error in errors_in(reply)}) if reply is not None else []
        details |= {"records": len(decision.records), "parks": decision.parks_as is not None, "wakes": len(decision.wakes)}
        return partial(log.log, TRACE, "group decision", extra=fields(**details, errors=errors))
