"""The session of a group's member, and the request that its group awaits of it, as JSON. Times in ms are wall time.

A member's session timer runs out `session_timeout_ms` after its last request, so the timer tells when that was. After a load of
the shard it is the time of the load.
"""

from collections.abc import Callable
from typing import Any

from libs.coordinator.core.timers import TimerKey

Deadlines = Callable[[TimerKey], int | None]
"""The deadline of a timer of the group's shard, in ms. None: it is not set."""


def session(ends_ms: int | None, timeout_ms: int) -> dict[str, Any]:
    """The member's session. None: it has no timer, since it waits for an answer for the first time."""
    return {"last_heard_ms": None if ends_ms is None else ends_ms - timeout_ms, "session_ends_ms": ends_ms}


def awaited(request: str, due_ms: int | None) -> dict[str, Any]:
    """A request that must come until `due_ms`, or its member is removed."""
    return {"request": request, "due_ms": due_ms}
