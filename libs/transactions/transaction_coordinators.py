"""The transaction coordinators, as leaders ask them whether a partition belongs to a transaction."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from libs.cluster.image import ClusterImage
from libs.cluster.records import TRANSACTION_COORDINATOR
from libs.cluster.shard_owners import Owner
from libs.cluster.topic_names import TRANSACTION_TOPIC
from libs.coordinator.core.shard_hashing import shard_of
from libs.rpc.client.rpc_client import Hello, Response
from libs.rpc.contracts.transactions import ADD_PARTITIONS, AddPartitions, PartitionsAdded
from libs.rpc.messages.errors import ContractError, RpcFailure
from libs.rpc.messages.schema import pack, unpack
from libs.rpc.transport.transport import Transport
from libs.runtime.member_clients import MemberClients
from libs.telemetry.tracing.rpc_context import pack_context
from libs.telemetry.tracing.span import SpanContext
from libs.wire.errors import ErrorCode

TIMEOUT_S: Final = 3.0
COORDINATOR_NOT_AVAILABLE: Final = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
NOT_COORDINATOR: Final = int(ErrorCode.NOT_COORDINATOR)

OnError = Callable[[int], None]
"""Called once, later: 0, or the error of the partition."""


class TransactionCoordinators:
    """Call `follow` with each image, and `close` at the end."""

    def __init__(self, hello: Callable[[], Hello], host_id: str, transport: Transport) -> None:
        self._clients = MemberClients(TRANSACTION_COORDINATOR, hello, host_id, transport)
        self._image = ClusterImage()

    def follow(self, image: ClusterImage) -> None:
        self._image = image
        self._clients.follow(image)

    def ask(self, request: AddPartitions, on_error: OnError, context: SpanContext | None = None) -> int:
        """Asks the owner of the transactional id's shard about one partition. 0: the answer comes later. Else the error, and
        `on_error` is never called. `context`: the span that asks. One that is not sampled counts if the coordinator is slow."""
        topic = self._image.topics.get(TRANSACTION_TOPIC)
        if topic is None:
            return COORDINATOR_NOT_AVAILABLE
        state = self._image.partition(bytes.fromhex(topic.topic_id), shard_of(request.transactional_id, topic.partitions))
        owner = Owner.named(state.owner) if state is not None else None
        client = self._clients.client_of(owner) if owner is not None else None
        if client is None:
            return NOT_COORDINATOR
        packed = pack_context(context) if context is not None else None
        sampled = context is not None and context.sampled
        if packed is not None and not sampled:
            request = replace(request, undecided_trace=packed)
        try:
            client.send(
                ADD_PARTITIONS,
                pack(request),
                (),
                lambda outcome: on_error(_error_in(outcome)),
                timeout_s=TIMEOUT_S,
                trace=packed if sampled else None,
            )
        except RpcFailure:
            return NOT_COORDINATOR
        return 0

    async def close(self) -> None:
        await self._clients.close()


def _error_in(outcome: Response | Exception) -> int:
    if isinstance(outcome, Exception):
        return NOT_COORDINATOR
    try:
        (error,) = unpack(PartitionsAdded, outcome.body).errors
    except (ContractError, ValueError):
        return int(ErrorCode.UNKNOWN_SERVER_ERROR)
    return error
