"""What the driver does before the tasks of an epoch: it checks topics, and reads the ledger so that tasks need not."""

from services.pipeline.sink import ledger
from services.pipeline.sink.client.cluster import ClusterClient
from services.pipeline.sink.client.errors import Refused, SinkError
from services.pipeline.sink.client.requests import TopicPartition
from services.pipeline.sink.ledger import LedgerView
from services.pipeline.sink.ledger_topic import ledger_partition
from services.pipeline.sink.options import SinkOptions
from services.pipeline.sink.task_identity import Handout

_read: dict[tuple[object, ...], LedgerView] = {}
"""What this process has read of each ledger partition: the next epoch reads on from there."""


def prepare(options: SinkOptions, sink_id: str, tasks: int | None) -> Handout:
    """Raises SinkError: an unknown topic, an unsuitable ledger topic, a cluster that does not answer."""
    cluster = ClusterClient(options.bootstrap, options.security)
    try:
        if options.topic is not None and cluster.partition_count(options.topic) is None:
            raise SinkError(f"there is no topic {options.topic}: create it before rows are written to it")
        place = ledger_partition(cluster, options.ledger_topic, sink_id)
        return Handout(place, _read_on(cluster, options, place).of_sink(sink_id), tasks)
    except Refused as error:
        raise SinkError(f"sink {sink_id}: {error}") from error
    finally:
        cluster.close()


def _read_on(cluster: ClusterClient, options: SinkOptions, place: TopicPartition) -> LedgerView:
    key = (options.bootstrap, *place)
    _read[key] = ledger.read(cluster, place, _read.get(key, LedgerView()))
    return _read[key]
