"""Which of a server's methods a caller may call, by what its hello says."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from libs.roles import ROLES
from libs.rpc.contracts.callers import Callers
from libs.rpc.server.call import Call

Accept = Callable[[Call], Coroutine[Any, Any, None] | None]
"""The function that takes a request of one method. It runs to its end before the next frame is looked at. It may return a
coroutine, the rest of the work, which runs as a task."""


class Permissions:
    """The methods of a server, by what may call them. A connection looks its own up once, at the hello, so that a call costs one
    look-up by its method."""

    def __init__(self, methods: Mapping[str, Accept], callers: Mapping[str, Callers]) -> None:
        """Raises ValueError for a method without a row."""
        if unlisted := sorted(methods.keys() - callers.keys()):
            raise ValueError(f"nobody may call {', '.join(unlisted)}: libs/rpc/contracts/callers.py has no row for it")
        self._methods = methods
        self._callers = callers
        self._allowed = {
            (role, has_node_id, has_cluster_id): self._of(role, has_node_id, has_cluster_id)
            for role in ROLES
            for has_node_id in (False, True)
            for has_cluster_id in (False, True)
        }

    def of(self, role: str, *, has_node_id: bool, has_cluster_id: bool) -> Mapping[str, Accept]:
        return self._allowed[role, has_node_id, has_cluster_id]

    def serves(self, method: str) -> bool:
        return method in self._methods

    def _of(self, role: str, has_node_id: bool, has_cluster_id: bool) -> Mapping[str, Accept]:
        return {
            method: accept
            for method, accept in self._methods.items()
            if (row := self._callers[method])
            and role in row.roles
            and (has_node_id or row.without_node_id)
            and (has_cluster_id or row.without_cluster_id)
        }
