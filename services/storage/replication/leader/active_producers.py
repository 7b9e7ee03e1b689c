"""DescribeProducers: the producers that a leader knows of, with the transaction that each has open (KIP-664).

A partition may know a million producers that wrote within a day, so an answer has a bound. Those with an open transaction come
first, since they hold back the last stable offset.
"""

from itertools import chain, islice
from typing import Final

from libs.commitlog.producers.producer_state import ProducerEntry
from libs.rpc.contracts.storage import ActiveProducer, DescribeProducers, DescribeProducersReply, PartitionProducers
from libs.rpc.messages.errors import ContractError
from libs.rpc.messages.schema import unpack
from libs.rpc.server.call import Call
from libs.wire.errors import ErrorCode
from services.storage.core.produce.admission import Refusal
from services.storage.partition.partition import Key
from services.storage.partition.partition_table import PartitionTable

NO_SEQUENCE: Final = -1
PRODUCERS_MAX: Final = 2_000
"""The most producers in an answer, evenly for its partitions. To describe so many takes a hundredth of a second."""
PRODUCERS_MIN: Final = 10
"""The producers that each partition may have in any case."""


class ActiveProducersRequests:
    def __init__(self, partitions: PartitionTable) -> None:
        self._partitions = partitions

    def accept(self, call: Call) -> None:
        try:
            request = unpack(DescribeProducers, call.body)
        except ContractError as error:
            call.fail(int(ErrorCode.INVALID_REQUEST), str(error))
            return
        count_max = max(PRODUCERS_MIN, PRODUCERS_MAX // max(1, len(request.partitions)))
        call.reply(
            DescribeProducersReply(tuple([self._answer((topic_id, index), count_max) for topic_id, index in request.partitions]))
        )

    def _answer(self, key: Key, count_max: int) -> PartitionProducers:
        partition = self._partitions.serving(key)
        if isinstance(partition, Refusal):
            return PartitionProducers(partition.error)
        state = partition.log.producers
        entries = state.entries
        if len(entries) <= count_max:
            return PartitionProducers(0, tuple([_described(producer_id, entry) for producer_id, entry in entries.items()]))
        open_first = (producer_id for _, producer_id in state.transactions.oldest(count_max))
        chosen = dict.fromkeys(islice(chain(open_first, entries), 2 * count_max))
        return PartitionProducers(0, tuple([_described(each, entries[each]) for each in islice(chosen, count_max)]))


def _described(producer_id: int, entry: ProducerEntry) -> ActiveProducer:
    return ActiveProducer(
        producer_id,
        entry.epoch,
        entry.batches[-1].last_sequence if entry.batches else NO_SEQUENCE,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.transaction_first_offset,
    )
