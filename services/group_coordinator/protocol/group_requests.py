"""`groups.ask`: clients' requests about groups, as events for the shards of their groups."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from random import Random
from typing import Any

from libs.cluster.acl_index import NO_ACLS
from libs.cluster.acls import AclOperation, ResourceType, canonical_host
from libs.cluster.image import ClusterImage
from libs.cluster.standard_authorizer import StandardAuthorizer
from libs.coordinator.core.pending import Answer
from libs.coordinator.requests import client_requests
from libs.coordinator.requests.client_requests import NOT_COORDINATOR, ClientRequests, Count
from libs.coordinator.requests.deferred_requests import Write
from libs.coordinator.shards.shard_set import ShardSet
from libs.coordinator.tracing.call_spans import CallSpans
from libs.rpc.contracts.coordinators import ASK_GROUPS
from libs.rpc.server.call import Call
from libs.wire.api_keys import ApiKey
from libs.wire.apis import GROUP_APIS, Api
from libs.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from libs.wire.messages.list_groups import ListGroupsRequest
from libs.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from libs.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from services.group_coordinator.core.group_machine import GroupMachine
from services.group_coordinator.core.model.requests import Reply, RequestEvent, reads_topics
from services.group_coordinator.core.model.topics_view import TopicsView
from services.group_coordinator.core.offsets.transactional_commits import names_known_partition, refuse_transactional_commit
from services.group_coordinator.protocol.commit_templates import CommitTemplates
from services.group_coordinator.protocol.commit_verification import CommitVerification
from services.group_coordinator.protocol.member_waits import MemberWait


class GroupRequests(ClientRequests[RequestEvent, Reply]):
    """The RPC methods of a group coordinator. `random` is for member ids. `topics` and `open_epoch` read what decisions read:
    the topics, and the epoch of a producer's open transaction in a shard. `on_waited` hears of each answered JoinGroup and
    SyncGroup."""

    def __init__(
        self,
        shards: ShardSet[RequestEvent, Reply, Any],
        random: Random,
        count: Count,
        verification: CommitVerification,
        topics: Callable[[], TopicsView],
        open_epoch: Callable[[int, int], int | None],
        spans: CallSpans,
        on_waited: Callable[[MemberWait], None],
        *,
        shortcuts: bool,
    ) -> None:
        super().__init__(ASK_GROUPS, GROUP_APIS, shards, count, spans)
        self._random = random
        self._on_waited = on_waited
        self._verification = verification
        self._topics = topics
        self._open_epoch = open_epoch
        self._commits = CommitTemplates(enabled=shortcuts)
        self._acls = NO_ACLS
        self._authorizers: dict[bool, StandardAuthorizer] = {}
        """Those of these ACLs, by whether they allow what no ACL names."""

    def decode(self, api: Api, version: int, body: bytes, client_id: str, client_host: str) -> tuple[RequestEvent, Write]:
        request: Any
        write: Write
        if api.key == ApiKey.OFFSET_COMMIT:
            request, write = self._commits.read(body, version)
        else:
            request, write = api.read(memoryview(body), version), partial(api.written, version=version)
        return RequestEvent(request, version, client_id, client_host, self._fresh_id() if api.needs_new_id else ""), write

    def follow(self, image: ClusterImage) -> None:
        if image.acls is not self._acls:
            self._acls = image.acls
            self._authorizers.clear()
        super().follow(image)

    def authorized(self, event: RequestEvent, principal: str, client_host: str, *, allow_if_no_acl: bool) -> RequestEvent:
        """The gateway has checked what the request names. Topics that a regular expression matches are known here only."""
        authorizer = self._authorizers.get(allow_if_no_acl)
        if authorizer is None:
            authorizer = StandardAuthorizer(self._acls, allow_if_no_acl=allow_if_no_acl)
            self._authorizers[allow_if_no_acl] = authorizer
        host = canonical_host(client_host.removeprefix("/"))
        describes = partial(authorizer.allows, principal, host, AclOperation.DESCRIBE, ResourceType.TOPIC)
        return event._replace(describes=describes)

    def keys(self, api: Api, event: RequestEvent) -> Sequence[str]:
        return api.shard_keys(event.request, event.version)

    def reads_topics(self, event: RequestEvent) -> bool:
        return reads_topics(event.request)

    def submit(self, call: Call, api: Api, write: Write, shard: int, event: RequestEvent) -> None:
        request = event.request
        driver = self._shards.owned.get(shard)
        if isinstance(request, TxnOffsetCommitRequest) and driver is not None and self._must_verify(shard, request):
            verified = partial(self._verified, call, api, write, shard, driver.owner_epoch, event)
            self._verification.verify(shard, request, event.version, verified, self.spans.of_question(call))
        elif isinstance(request, ListGroupsRequest) and sum(map(len, self._names(shard))) > client_requests.LISTED_AT_ONCE:
            self.list_by_turns(
                call, api, write, shard, lambda: chain(*self._names(shard)), lambda some: event._replace(names=some)
            )
        elif isinstance(request, JoinGroupRequest | SyncGroupRequest):
            answered = partial(self._answer_member, call, api, write, event, request)
            self._shards.submit(shard, event, answered, self.spans.of_append(call))
        else:
            super().submit(call, api, write, shard, event)

    def _answer_member(
        self,
        call: Call,
        api: Api,
        write: Write,
        event: RequestEvent,
        request: JoinGroupRequest | SyncGroupRequest,
        answer: Answer[Reply, Any],
    ) -> None:
        reply = answer.reply
        self.answer(call, api, write, answer)
        self._on_waited(
            MemberWait(
                request.group_id,
                api.key,
                reply.member_id if isinstance(reply, JoinGroupResponse) else request.member_id,
                event.client_id,
                call.received_at,
                self._loop.time(),
                answer.error or (reply.error_code if isinstance(reply, JoinGroupResponse | SyncGroupResponse) else 0),
                self.spans.of_decision(call),
            )
        )

    def _names(self, shard: int) -> Sequence[list[str]]:
        """The names of the shard's groups. Empty: it is not served here."""
        driver = self._shards.serving.get(shard)
        observed: Any = driver.machine if driver is not None else None
        if observed is None or not isinstance(observed.machine, GroupMachine):
            return ()
        return observed.machine.names()

    def _must_verify(self, shard: int, request: TxnOffsetCommitRequest) -> bool:
        """Whether the coordinator of the transaction has to be asked. The first offsets of a transaction begin it here, and those
        that follow belong to it."""
        if self._open_epoch(shard, request.producer_id) == request.producer_epoch or not request.group_id:
            return False
        return names_known_partition(request, self._topics())

    def _verified(
        self, call: Call, api: Api, write: Write, shard: int, owner_epoch: int, event: RequestEvent, error: int
    ) -> None:
        if not call.open:  # stored now, the offsets could belong to the client's next transaction
            return
        driver = self._shards.owned.get(shard)
        if driver is None or driver.owner_epoch != owner_epoch:  # another owner may have ended the transaction meanwhile
            self.answer(call, api, write, Answer(None, NOT_COORDINATOR))
            return
        if error:
            assert isinstance(event.request, TxnOffsetCommitRequest)
            refusal = refuse_transactional_commit(event.request, self._topics(), error)
            self.answer(call, api, write, Answer(None, 0, refusal))
            return
        super().submit(call, api, write, shard, event)
        self._shards.end_turn()

    def _fresh_id(self) -> str:
        """A version 4 UUID in Java's text form."""
        bits = self._random.getrandbits(128) & ~(0xF << 76 | 3 << 62) | 4 << 76 | 2 << 62
        text = f"{bits:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
