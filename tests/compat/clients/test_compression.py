"""Every client reads what every client compressed, and the batches lie on disk as their producers made them."""

import pytest

from libs.wire.compression import Codec
from libs.wire.records import iter_batches
from tests.clients.admin import Admin
from tests.clients.five_clients import CLIENTS, Record, read_by_all
from tests.cluster_harness import LocalCluster


def records_of(client: str, count: int = 300) -> list[Record]:
    return [Record(f"{client}-{number}".encode(), f"{client} says {number} ".encode() * 20) for number in range(count)]


def codecs_on_disk(cluster: LocalCluster, topic: str) -> set[Codec]:
    found = set()
    for name in cluster.names:
        for file in cluster.data_directory(name).glob(f"**/{topic}-0/*.log"):
            found |= {Codec(batch.header.attributes & 7) for batch in iter_batches(memoryview(file.read_bytes()))}
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_that_every_client_compressed_are_read_by_every_client(
    cluster: LocalCluster, admin: Admin, topic: str, codec: str
) -> None:
    admin.create(topic)
    expected: list[Record] = []
    for name, client in CLIENTS.items():
        client.write(cluster.bootstrap, topic, records_of(name), codec=codec)
        expected += records_of(name)
    assert codecs_on_disk(cluster, topic) == {Codec[codec.upper()]}
    for name, read in read_by_all(cluster.bootstrap, topic, len(expected)).items():
        assert read == expected, f"as {name} reads it"
