"""`transactions.add_partitions`: a partition's leader asks, before it stores the first batch of a transaction (KIP-890). So does
the group coordinator that owns a shard of `__consumer_offsets`, before it stores the first offsets.

The leader sends a name, so an older image of this process could lack the topic, and then nobody would end the transaction there.
Such a request answers COORDINATOR_LOAD_IN_PROGRESS, and the leader asks again.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from libs.cluster.image import ClusterImage
from libs.coordinator.core.pending import Answer
from libs.coordinator.core.shard_hashing import shard_of
from libs.coordinator.shards.shard_set import ShardSet
from libs.coordinator.tracing.call_spans import CallSpans
from libs.rpc.contracts.transactions import ADD_PARTITIONS, PartitionsAdded
from libs.rpc.contracts.transactions import AddPartitions as AddPartitionsRequest
from libs.rpc.messages.schema import unpack
from libs.rpc.server.call import Call
from libs.rpc.server.rpc_server import Accept
from libs.telemetry.tracing.rpc_context import unpack_context
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from services.transaction_coordinator.core.requests import AddPartitions, PartitionsReply, Reply, Request, VerifyPartitions
from services.transaction_coordinator.core.transaction import TRANSACTION_VERSION_2, Producer
from services.transaction_coordinator.protocol.completions import Completions
from services.transaction_coordinator.protocol.transaction_requests import is_concurrent, refused_partitions

API: Final = APIS[ApiKey.ADD_PARTITIONS_TO_TXN]
"""The name under which a question is traced."""


class LeaderRequests:
    """The RPC methods for leaders. `image` gives the newest one."""

    def __init__(
        self,
        shards: ShardSet[Request, Reply, Any],
        image: Callable[[], ClusterImage],
        completions: Completions,
        spans: CallSpans,
    ) -> None:
        self._spans = spans
        self._shards = shards
        self._image = image
        self._completions = completions

    @property
    def methods(self) -> Mapping[str, Accept]:
        return {ADD_PARTITIONS: self.add_partitions}

    def add_partitions(self, call: Call) -> None:
        """Raises ContractError."""
        asked = unpack(AddPartitionsRequest, call.body)
        if not asked.transactional_id:
            _refuse(call, asked, ErrorCode.INVALID_REQUEST)
            return
        count = self._shards.count
        if not count:
            _refuse(call, asked, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        shard = shard_of(asked.transactional_id, count)
        producer, partitions = Producer(asked.producer_id, asked.producer_epoch), frozenset(asked.partitions)
        if asked.verify_only:
            known = self._knows_owner(asked, shard)
            self._shards.submit(
                shard,
                VerifyPartitions(asked.transactional_id, producer, partitions, known),
                partial(self._answer, call, asked, shard),
            )
            return
        event = AddPartitions(asked.transactional_id, producer, partitions, TRANSACTION_VERSION_2)
        if refused_partitions(self._image(), event, by_group_coordinator=True) is not None:
            _refuse(call, asked, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return
        self._shards.submit(shard, event, partial(self._added, call, asked, shard, event), self._spans.of_append(call))

    def _knows_owner(self, asked: AddPartitionsRequest, shard: int) -> bool:
        owned = self._shards.owned.get(shard)
        return owned is not None and 0 <= asked.coordinator_epoch <= owned.owner_epoch

    def _added(self, call: Call, asked: AddPartitionsRequest, shard: int, event: Request, answer: Answer[Reply, Any]) -> None:
        if is_concurrent(answer.reply):
            self._completions.wait(asked.transactional_id, partial(self._once_more, call, asked, shard, event))
        else:
            self._answer(call, asked, shard, answer)

    def _once_more(self, call: Call, asked: AddPartitionsRequest, shard: int, event: Request) -> None:
        if call.open:
            self._shards.submit(shard, event, partial(self._answer, call, asked, shard), self._spans.of_append(call))
            self._shards.end_turn()

    def _answer(self, call: Call, asked: AddPartitionsRequest, shard: int, answer: Answer[Reply, Any]) -> None:
        errors = _errors_in(answer, asked)
        undecided = unpack_context(asked.undecided_trace or None)
        if call.trace is not None or undecided is not None:  # of others the leader has no span that these could belong to
            driver = self._shards.owned.get(shard)
            error = next(filter(None, errors), 0)
            append = driver.append_times if driver is not None else None
            self._spans.answered(call, API, shard, error, append, undecided)
        if call.open:
            call.reply(PartitionsAdded(errors))


def _errors_in(answer: Answer[Reply, Any], asked: AddPartitionsRequest) -> tuple[int, ...]:
    """That of each partition."""
    if answer.error:
        return (int(answer.error),) * len(asked.partitions)
    reply = answer.reply
    assert isinstance(reply, PartitionsReply)
    if reply.error_code:
        return (int(reply.error_code),) * len(asked.partitions)
    return tuple(int(reply.partitions.get(each, ErrorCode.NONE)) for each in asked.partitions)


def _refuse(call: Call, asked: AddPartitionsRequest, error: int) -> None:
    if call.open:
        call.reply(PartitionsAdded((int(error),) * len(asked.partitions)))
