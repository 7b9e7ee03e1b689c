"""`groups.write_markers`: transaction coordinators end transactions in the shards that this process owns."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from libs.cluster.image import ClusterImage
from libs.cluster.topic_names import GROUP_TOPIC
from libs.coordinator.core.pending import Answer
from libs.coordinator.shards.shard_set import ShardSet
from libs.rpc.contracts.storage import Appended, AppendReply
from libs.rpc.contracts.transactions import WRITE_GROUP_MARKERS, Marker, WriteMarkers
from libs.rpc.messages.errors import ContractError
from libs.rpc.messages.schema import unpack
from libs.rpc.server.call import Call
from libs.rpc.server.rpc_server import Accept
from libs.transactions.marker_numbers import MarkerNumbers
from libs.wire.errors import ErrorCode
from services.group_coordinator.core.model.requests import MarkerReply, Reply, RequestEvent, TransactionMarker
from services.group_coordinator.protocol.commit_verification import CommitVerification

LATE: Final = int(ErrorCode.INVALID_REQUEST)
"""It was sent for another owner epoch, or a later marker has come before."""
UNKNOWN_PARTITION: Final = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
NOT_COORDINATOR: Final = int(ErrorCode.NOT_COORDINATOR)


Settle = Callable[[int], None]
"""Takes the error of a marker, once."""


class TransactionMarkers:
    """The RPC method. `image` gives the newest one."""

    def __init__(
        self,
        shards: ShardSet[RequestEvent, Reply, Any],
        image: Callable[[], ClusterImage],
        verification: CommitVerification,
    ) -> None:
        self._shards = shards
        self._image = image
        self._verification = verification
        self._numbers = MarkerNumbers()
        self._under_way: dict[tuple[int, int, TransactionMarker], list[Settle]] = {}
        """By shard, owner epoch and marker: who waits. A marker that is sent again while it waits is not appended twice."""

    @property
    def methods(self) -> Mapping[str, Accept]:
        return {WRITE_GROUP_MARKERS: self.accept}

    def accept(self, call: Call) -> None:
        """Takes one WriteMarkers. It is answered when all of its markers are committed or refused."""
        try:
            request = unpack(WriteMarkers, call.body)
        except ContractError as error:
            call.fail(LATE, str(error))
            return
        if not request.markers:
            call.fail(LATE, "a request without markers")
            return
        answers: list[int | None] = [None] * len(request.markers)

        def settle(place: int, error: int) -> None:
            answers[place] = error
            if None not in answers and call.open:
                call.reply(AppendReply(tuple(Appended(each) for each in answers if each is not None)))

        for place, marker in enumerate(request.markers):
            refusal = self._refusal(marker, request.number)
            if refusal:
                settle(place, refusal)
            else:
                self._submit(marker, partial(settle, place))

    def _refusal(self, marker: Marker, number: int) -> int:
        """The error of a marker that no shard need decide about."""
        topic = self._image().topics.get(GROUP_TOPIC)
        if topic is None or bytes.fromhex(topic.topic_id) != marker.topic_id:
            return UNKNOWN_PARTITION
        driver = self._shards.owned.get(marker.partition)
        if driver is None:
            return NOT_COORDINATOR
        if driver.owner_epoch != marker.leader_epoch:
            return LATE
        return LATE if self._numbers.is_late(marker, number) else 0

    def _submit(self, marker: Marker, settle: Settle) -> None:
        epoch = marker.producer_epoch
        self._verification.ended(marker.partition, marker.producer_id, epoch - 1 if marker.raises_epoch else epoch)
        request = TransactionMarker(marker.producer_id, epoch, marker.commits, marker.raises_epoch, marker.coordinator_epoch)
        key = marker.partition, marker.leader_epoch, request
        if key in self._under_way:
            self._under_way[key].append(settle)
            return
        self._under_way[key] = [settle]
        self._shards.submit(marker.partition, RequestEvent(request, 0, "", "", ""), partial(self._decided, key))

    def _decided(self, key: tuple[int, int, TransactionMarker], answer: Answer[Reply, Any]) -> None:
        reply = answer.reply
        error = int(reply.error_code) if isinstance(reply, MarkerReply) else answer.error
        for settle in self._under_way.pop(key):
            settle(error)
