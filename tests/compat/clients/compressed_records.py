"""Records that compress well, and the codecs of what lies on disk."""

from libs.wire.record_batches.compression import Codec
from libs.wire.record_batches.records import iter_batches
from tests.compat.clients.five_clients import Record
from tests.support.cluster_harness import LocalCluster


def records_of(client: str, count: int = 300) -> list[Record]:
    return [Record(f"{client}-{number}".encode(), f"{client} says {number} ".encode() * 20) for number in range(count)]


def codecs_on_disk(cluster: LocalCluster, topic: str) -> set[Codec]:
    found = set()
    for name in cluster.names:
        for file in cluster.data_directory(name).glob(f"**/{topic}-0/*.log"):
            found |= {Codec(batch.header.attributes & 7) for batch in iter_batches(memoryview(file.read_bytes()))}
    return found
