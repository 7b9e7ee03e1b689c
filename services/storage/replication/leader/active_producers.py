"""DescribeProducers: the producers that a leader knows of, with the transaction that each has open (KIP-664)."""

from libs.commitlog.producers.producer_state import ProducerEntry
from libs.rpc.call import Call
from libs.rpc.contracts.storage import ActiveProducer, DescribeProducers, DescribeProducersReply, PartitionProducers
from libs.rpc.errors import ContractError
from libs.rpc.schema import unpack
from libs.wire.errors import ErrorCode
from services.storage.core.produce.admission import Refusal
from services.storage.partition.partition import Key
from services.storage.partition.partition_table import PartitionTable

NO_SEQUENCE = -1


class ActiveProducersRequests:
    def __init__(self, partitions: PartitionTable) -> None:
        self._partitions = partitions

    def accept(self, call: Call) -> None:
        try:
            request = unpack(DescribeProducers, call.body)
        except ContractError as error:
            call.fail(int(ErrorCode.INVALID_REQUEST), str(error))
            return
        call.reply(DescribeProducersReply(tuple([self._answer((topic_id, index)) for topic_id, index in request.partitions])))

    def _answer(self, key: Key) -> PartitionProducers:
        partition = self._partitions.serving(key)
        if isinstance(partition, Refusal):
            return PartitionProducers(partition.error)
        entries = partition.log.producers.entries
        return PartitionProducers(0, tuple([_described(producer_id, entry) for producer_id, entry in entries.items()]))


def _described(producer_id: int, entry: ProducerEntry) -> ActiveProducer:
    return ActiveProducer(
        producer_id,
        entry.epoch,
        entry.batches[-1].last_sequence if entry.batches else NO_SEQUENCE,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.transaction_first_offset,
    )
