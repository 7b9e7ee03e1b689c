"""OffsetForLeaderEpoch: where an epoch ends in the leader's log (KIP-101, KIP-320; kafka-facts section 10)."""

from libs.rpc.call import Call
from libs.rpc.contracts.storage import EndOfEpoch, EndOfEpochReply, EpochEnd, EpochPartition
from libs.rpc.errors import ContractError
from libs.rpc.schema import unpack
from libs.wire.errors import ErrorCode
from services.storage.core.admission import Refusal, refuse_client_epoch
from services.storage.partitions import Partitions


class EpochEnds:
    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    def accept(self, call: Call) -> None:
        try:
            request = unpack(EndOfEpoch, call.body)
        except ContractError as error:
            call.fail(int(ErrorCode.INVALID_REQUEST), str(error))
            return
        call.reply(EndOfEpochReply(tuple([self._answer(wanted) for wanted in request.partitions])))

    def _answer(self, wanted: EpochPartition) -> EpochEnd:
        found = self._partitions.serving((wanted.topic_id, wanted.partition))
        if isinstance(found, Refusal):
            return EpochEnd(found.error)
        if error := refuse_client_epoch(wanted.current_leader_epoch, found.leader_epoch):
            return EpochEnd(error)
        return EpochEnd(0, *found.end_of_epoch(wanted.leader_epoch))
