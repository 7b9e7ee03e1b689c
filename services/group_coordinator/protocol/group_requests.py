"""`groups.ask`: clients' requests about groups, as events for the shards of their groups."""

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

from libs.coordinator.client_requests import ClientRequests, Count
from libs.coordinator.deferred_requests import Write
from libs.coordinator.shard_set import ShardSet
from libs.rpc.contracts.coordinators import ASK_GROUPS
from libs.wire.api_keys import ApiKey
from libs.wire.apis import GROUP_APIS, Api
from services.group_coordinator.core.model.requests import Reply, RequestEvent, reads_topics
from services.group_coordinator.protocol.commit_templates import CommitTemplates


class GroupRequests(ClientRequests[RequestEvent, Reply]):
    """The RPC methods of a group coordinator. `random` is for member ids."""

    def __init__(self, shards: ShardSet[RequestEvent, Reply, Any], random: Random, count: Count) -> None:
        super().__init__(ASK_GROUPS, GROUP_APIS, shards, count)
        self._random = random
        self._commits = CommitTemplates()

    def decode(self, api: Api, version: int, body: bytes, client_id: str, client_host: str) -> tuple[RequestEvent, Write]:
        request: Any
        write: Write
        if api.key == ApiKey.OFFSET_COMMIT:
            request, write = self._commits.read(body, version)
        else:
            request, write = api.read(memoryview(body), version), partial(api.written, version=version)
        return RequestEvent(request, version, client_id, client_host, self._fresh_id() if api.needs_new_id else ""), write

    def keys(self, api: Api, event: RequestEvent) -> Sequence[str]:
        return api.shard_keys(event.request, event.version)

    def reads_topics(self, event: RequestEvent) -> bool:
        return reads_topics(event.request)

    def _fresh_id(self) -> str:
        """A version 4 UUID in Java's text form."""
        bits = self._random.getrandbits(128) & ~(0xF << 76 | 3 << 62) | 4 << 76 | 2 << 62
        text = f"{bits:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
