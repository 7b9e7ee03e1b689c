"""Every client reads what every client compressed, and the batches lie on disk as their producers made them."""

import pytest

from libs.wire.record_batches.compression import Codec
from tests.compat.clients.admin import Admin
from tests.compat.clients.compressed_records import codecs_on_disk, records_of
from tests.compat.clients.five_clients import CLIENTS, Record, read_by_all
from tests.support.cluster_harness import LocalCluster


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
