"""OffsetForLeaderEpoch: where an epoch ends in the leader's log (KIP-101, KIP-320)."""

from libs.rpc.contracts.storage import EndOfEpoch, EndOfEpochReply, EpochEnd, EpochPartition
from libs.rpc.messages.errors import ContractError
from libs.rpc.messages.schema import unpack
from libs.rpc.server.call import Call
from libs.wire.errors import ErrorCode
from services.storage.core.produce.admission import Refusal, refuse_client_epoch
from services.storage.partition.partition_table import PartitionTable


class EpochEndRequests:
    def __init__(self, partitions: PartitionTable) -> None:
        self._partitions = partitions

    def accept(self, call: Call) -> None:
        try:
            request = unpack(EndOfEpoch, call.body)
        except ContractError as error:
            call.fail(int(ErrorCode.INVALID_REQUEST), str(error))
            return
        call.reply(EndOfEpochReply(tuple([self._answer(wanted) for wanted in request.partitions])))

    def _answer(self, wanted: EpochPartition) -> EpochEnd:
        partition = self._partitions.serving((wanted.topic_id, wanted.partition))
        if isinstance(partition, Refusal):
            return EpochEnd(partition.error)
        if error := refuse_client_epoch(wanted.current_leader_epoch, partition.leader_epoch):
            return EpochEnd(error)
        epoch, end_offset = partition.end_of_epoch(wanted.leader_epoch)
        return EpochEnd(0, epoch, end_offset)
