"""LogEnds: what a replica here holds, leader or not. The controller asks before an election that may lose something."""

from libs.rpc.call import Call
from libs.rpc.contracts.storage import LogEnd, LogEnds, LogEndsReply
from libs.rpc.errors import ContractError
from libs.rpc.schema import unpack
from libs.wire.errors import ErrorCode
from services.storage.hosted import Key
from services.storage.partitions import Partitions

NOT_HOSTED = LogEnd(int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
OFFLINE = LogEnd(int(ErrorCode.KAFKA_STORAGE_ERROR))


class LogEnding:
    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    def accept(self, call: Call) -> None:
        try:
            request = unpack(LogEnds, call.body)
        except ContractError as error:
            call.fail(int(ErrorCode.INVALID_REQUEST), str(error))
            return
        call.reply(LogEndsReply(tuple([self._answer(key) for key in request.partitions])))

    def _answer(self, key: Key) -> LogEnd:
        hosted = self._partitions.by_key.get(key)
        if hosted is None:
            return OFFLINE if key in self._partitions.broken else NOT_HOSTED
        if hosted.offline:
            return OFFLINE
        return LogEnd(0, hosted.log.epochs.latest, hosted.log_end_offset, hosted.log.durable_offset)
