"""A group coordinator of one shard on a log in memory; its stage says which groups it has."""

from collections.abc import Callable
from itertools import count
from typing import Any

from services.group_coordinator.core.group_machine import GroupMachine
from services.group_coordinator.core.model.requests import RequestEvent
from services.group_coordinator.core.record_formats import record_codec
from tests.coordinator import one_shard
from tests.coordinator.one_shard import CoordinatorRequest
from tests.group_coordinator.counted_groups import check_counts


class OneShard(one_shard.OneShard):
    counts_are_checked = True
    """Whether each step counts all groups, and compares."""

    def __init__(self) -> None:
        self.describes: Callable[[str], bool] | None = None
        """Which topics each client may describe from now on. None: there is no authorizer."""
        self._ids = count()
        super().__init__()

    def answer(self) -> None:
        super().answer()
        if self.counts_are_checked and isinstance(self.shard.machine, GroupMachine):
            check_counts(self.shard.machine)

    def written(self, since: int = 0) -> list[Any]:
        """Records of the log from there on."""
        return [
            record_codec.decode(*kept, self.transaction_of.get(place)) for place, kept in enumerate(self.log) if place >= since
        ]

    def submit(self, pending: CoordinatorRequest, version: int, client_id: str, host: str = "/127.0.0.1") -> None:
        event = RequestEvent(pending.request, version, client_id, host, f"id{next(self._ids)}", describes=self.describes)
        self.submit_event(event, pending)
