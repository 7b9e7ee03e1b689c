"""Fetches from a storage node on another host, where no descriptor can be passed: `sendfile` carries them over TCP."""

import os
import re

from tests.compat.clients.admin import Admin
from tests.gateway.kafka_client import RawClient, fetch_body, produce_body
from tests.storage.cluster import batch
from tests.support.cluster_harness import LocalCluster
from tests.support.open_files import open_files
from tests.system.faults.conftest import ONE_REPLICA
from tests.system.faults.raw_connection import raw_client
from tests.system.faults.system_calls import traced

NAMES = ("controller-1", "storage-1", "group_coordinator-1", "transaction_coordinator-1", "quota_manager-1", "gateway-1")
READS = "read,pread64,readv,preadv,preadv2"
MEGABYTE = 1_000_000
PRODUCE, FETCH = 9, 11
HEADER_BYTES = 61
"""Of a batch: the storage node fills some of it in."""


async def produce(client: RawClient, topic: str, records: bytes) -> None:
    (answer,) = await client.produce(PRODUCE, produce_body(PRODUCE, [(topic, [(0, records)])], acks=-1))
    assert answer.error == 0


async def fetch(client: RawClient, topic: str) -> bytes:
    _, (found,) = await client.fetch(FETCH, fetch_body(FETCH, [(topic, [(0, 0)])]))
    assert found.error == 0
    return found.records


async def test_a_megabyte_leaves_another_host_by_sendfile_and_its_storage_node_reads_nothing(topic: str) -> None:
    each_a_host = {name: {"PENSTOCK_HOST_ID": name} for name in NAMES}
    environment = {**ONE_REPLICA, "PENSTOCK_RPC_TCP": "127.0.0.1:0"}
    with LocalCluster(environment=environment, environment_of=each_a_host) as cluster:
        Admin(cluster.bootstrap).create(topic)
        records = batch(os.urandom(MEGABYTE))
        async with raw_client(cluster.shape.port) as client:
            await produce(client, topic, records)
            assert await fetch(client, topic) != b""
            with (
                traced(cluster.pid("storage-1"), "-e", f"trace=sendfile,{READS}") as storage,
                traced(cluster.pid("gateway-1"), "-e", "trace=sendfile") as gateway,
            ):
                found = await fetch(client, topic)
        gateway_files = open_files(cluster.pid("gateway-1"))
    assert found[HEADER_BYTES:] == records[HEADER_BYTES:]
    of_log = re.compile(rf"/{topic}-0/\d+\.log")
    sent = [call for call in storage.of("sendfile") if call.result > 0 and of_log.search(call.arguments)]
    assert sum(call.result for call in sent) >= len(records)
    assert all("TCP" in call.file or "TCP" in call.arguments for call in sent), sent
    read = [call for call in storage.of(*READS.split(",")) if call.result > 0 and of_log.search(call.file)]
    assert sum(call.result for call in read) < 50_000, read
    assert not gateway.of("sendfile")
    assert not [file for file in gateway_files if of_log.search(file)]
