"""`storage.write_markers`: coordinators end transactions in the partitions that this node leads."""

from libs.cluster.topic_names import INTERNAL_TOPICS
from libs.rpc.contracts.transactions import Marker as RequestedMarker
from libs.rpc.contracts.transactions import WriteMarkers
from libs.rpc.messages.errors import ContractError
from libs.rpc.messages.schema import unpack
from libs.rpc.server.call import Call
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batches import BatchError, BatchHeader
from libs.wire.record_batches.markers import Marker, build_marker
from services.storage.core.produce.admission import Refusal
from services.storage.core.produce.ownership import COORDINATOR_ONLY
from services.storage.partition.append_answers import refused_as, refused_batch
from services.storage.partition.partition import Partition
from services.storage.partition.pending_append import AppendCall
from services.storage.produce.appends import Appends

LATE = Refusal(int(ErrorCode.INVALID_REQUEST), "it was sent for another leader epoch, or a later marker has come before")
TIMEOUT_MS_MAX = 60_000


class TransactionMarkers:
    def __init__(self, appends: Appends) -> None:
        self._appends = appends

    def accept(self, call: Call) -> None:
        """Takes one WriteMarkers. Refusals are answered with the rest, when all in-sync replicas have the markers."""
        try:
            request = unpack(WriteMarkers, call.body)
        except ContractError as error:
            call.fail(int(ErrorCode.INVALID_REQUEST), str(error))
            return
        if not request.markers:
            call.fail(int(ErrorCode.INVALID_REQUEST), "a request without markers")
            return
        timeout_s = min(max(request.timeout_ms, 0), TIMEOUT_MS_MAX) / 1000
        appending = self._appends.begin_request(call, len(request.markers), timeout_s)
        for slot, wanted in enumerate(request.markers):
            admitted = self._appends.admit((wanted.topic_id, wanted.partition), wanted.leader_epoch, acks=-1)
            if isinstance(admitted, Refusal):
                appending.settle(slot, refused_as(admitted))
            else:
                self._stage(admitted, wanted, request.number, appending, slot)

    def _stage(self, partition: Partition, wanted: RequestedMarker, number: int, request: AppendCall, slot: int) -> None:
        if partition.topic in INTERNAL_TOPICS:
            request.settle(slot, refused_as(COORDINATOR_ONLY))
            return
        is_late = self._appends.marker_numbers.is_late(wanted, number)
        if is_late or wanted.leader_epoch != partition.replica.leader_epoch:
            request.settle(slot, refused_as(LATE))
            return
        marker = Marker(not wanted.commits, wanted.coordinator_epoch)
        batch = memoryview(
            build_marker(
                marker,
                producer_id=wanted.producer_id,
                producer_epoch=wanted.producer_epoch,
                timestamp_ms=self._appends.turn_ms,
                leader_epoch=wanted.leader_epoch,
            )
        )
        try:
            self._appends.stage_marker(
                partition, request, slot, batch, BatchHeader.at(batch), marker, raises_epoch=wanted.raises_epoch
            )
        except BatchError as error:
            request.settle(slot, refused_batch(error, partition.log_start_offset))
