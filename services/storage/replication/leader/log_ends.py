"""LogEnds: what a replica here holds, leader or not. The controller asks before an election that may lose records."""

from libs.rpc.contracts.storage import LogEnd, LogEnds, LogEndsReply
from libs.rpc.messages.errors import ContractError
from libs.rpc.messages.schema import unpack
from libs.rpc.server.call import Call
from libs.wire.errors import ErrorCode
from services.storage.partition.partition import Key
from services.storage.partition.partition_table import PartitionTable

NOT_HOSTED = LogEnd(int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
OFFLINE = LogEnd(int(ErrorCode.KAFKA_STORAGE_ERROR))
BEHIND = LogEnd(int(ErrorCode.UNKNOWN_LEADER_EPOCH))


class LogEndRequests:
    def __init__(self, partitions: PartitionTable) -> None:
        self._partitions = partitions

    def accept(self, call: Call) -> None:
        try:
            request = unpack(LogEnds, call.body)
        except ContractError as error:
            call.fail(int(ErrorCode.INVALID_REQUEST), str(error))
            return
        leader_epochs = request.leader_epochs or (-1,) * len(request.partitions)
        asked = zip(request.partitions, leader_epochs, strict=False)
        call.reply(LogEndsReply(tuple([self._answer(key, leader_epoch) for key, leader_epoch in asked])))

    def _answer(self, key: Key, leader_epoch: int) -> LogEnd:
        state = self._partitions.image.partition(*key)
        if state is not None and state.leader_epoch < leader_epoch:
            return BEHIND  # it may lead or follow in an older epoch, and take records after this answer
        partition = self._partitions.by_key.get(key)
        if partition is None:
            return OFFLINE if key in self._partitions.broken else NOT_HOSTED
        if partition.offline:
            return OFFLINE
        return LogEnd(0, partition.log.epochs.latest, partition.log_end_offset, partition.log.durable_offset)
