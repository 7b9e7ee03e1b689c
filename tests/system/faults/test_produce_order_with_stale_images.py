"""The gateway's image is often newer than the storage node's, by milliseconds: that must not reorder what a client sends."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from libs.clock import SystemClock
from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import GATEWAY, Topic
from libs.rpc.transport.socket_transport import SocketTransport
from libs.runtime.process import Environment, Identity
from libs.telemetry.metrics import Metrics
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.records import iter_batches, iter_records
from services.gateway.config import GatewayConfig
from services.gateway.service import Gateway
from tests.compat.kafka.tools import run_kcat
from tests.gateway.kafka_client import PRODUCE, Produced, RawClient, fetch_body, produce_body, read_produced
from tests.storage.cluster import StorageCluster, batch
from tests.storage.held_disk import HeldDisk
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import until
from tests.support.ports import reserve_ports

LAG_S = 0.3
TOPIC_ID = (77).to_bytes(16, "big")


class Lagging:
    """A gateway and a storage node in this process. What is written to the store reaches the node `LAG_S` after the gateway."""

    def __init__(self, node: StorageCluster, port_base: int) -> None:
        self.node = node
        self.seen_by_gateway = node.store.peer()
        self.port_base = port_base
        identity = Identity(GATEWAY, 1, 1, "this-host", "test")
        world = Environment(identity, SystemClock(), self.seen_by_gateway, SocketTransport(), Random(7))
        self.gateway = Gateway(
            GatewayConfig(node_id=1, etcd=(), port_base=port_base, data_dir=""),
            world,
            Metrics("gateway"),
            die=self.node.deaths.append,
            descriptors_max=20_000,
        )

    async def create(self, name: str, *, partitions: int = 1, epoch: int = 0) -> None:
        """Returns when the gateway has it, and the node does not."""
        for index in range(partitions):
            await self.node.state(TOPIC_ID, index, epoch=epoch)
        await self.node.write(keys.topic(name), encode(Topic(name, TOPIC_ID.hex(), partitions)))
        await until(lambda: name in self.gateway.image.topics and self.gateway.image.topics[name].partitions == partitions)

    async def produce(self, requests: list[bytes], *, partition: int = 0, acks: int = -1) -> list[Produced]:
        """All of them at once, without waiting for answers in between."""
        client = await RawClient.connect(self.port_base + 1)
        try:
            for number, records in enumerate(requests):
                client.ask(PRODUCE, 9, produce_body(9, [("t", [(partition, records)])], acks=acks), correlation_id=number)
                await client.drain()
                await asyncio.sleep(0)
            return [read_produced((await client.answer(PRODUCE, 9))[1], 9)[0][0] for _ in requests]
        finally:
            await client.close()

    def stored(self, partition: int = 0) -> list[bytes | None]:
        (file,) = Path(self.node.config.data_dir).glob(f"logs/t-{partition}/*.log")
        view = memoryview(file.read_bytes())
        return [record.value for found in iter_batches(view) for record in iter_records(found.view)]


@pytest.fixture
async def lagging(tmp_path: Path) -> AsyncIterator[Lagging]:
    sockets = Path(tempfile.mkdtemp(prefix="ps-"))
    ports = reserve_ports(10)
    disk = HeldDisk()
    node = StorageCluster(tmp_path, sockets, disk)
    try:
        await node.start()
        made = Lagging(node, ports.first)
        await made.gateway.start()
        await until(lambda: made.gateway.data_path.nodes.ready(1))
        node.store.watch_delay_s = LAG_S
        yield made
    finally:
        node.store.watch_delay_s = 0.0
        disk.release()
        await made.gateway.stop()
        await made.seen_by_gateway.close()
        await node.stop()
        await node.store.close()
        ports.release()
        shutil.rmtree(sockets)


def numbered(count: int) -> tuple[list[bytes], list[bytes]]:
    values = [b"%d" % number for number in range(count)]
    return values, [batch(value) for value in values]


@pytest.mark.parametrize("acks", [-1, 1])
async def test_batches_to_a_topic_that_the_node_has_not_heard_of_are_stored_in_order(lagging: Lagging, acks: int) -> None:
    values, requests = numbered(20)
    await lagging.create("t")
    answers = await lagging.produce(requests, acks=acks)
    assert [(answer.error, answer.base_offset) for answer in answers] == [(0, offset) for offset in range(20)]
    assert lagging.stored() == values


async def test_batches_that_arrive_while_the_node_catches_up_queue_behind_those_that_wait(lagging: Lagging) -> None:
    values, requests = numbered(200)
    await lagging.create("t")
    client = await RawClient.connect(lagging.port_base + 1)
    try:
        for number, records in enumerate(requests):
            client.ask(PRODUCE, 9, produce_body(9, [("t", [(0, records)])], acks=1), correlation_id=number)
            await client.drain()
            await asyncio.sleep(2 * LAG_S / len(requests))  # spread over the time before and after the node hears of the topic
        answers = [read_produced((await client.answer(PRODUCE, 9))[1], 9)[0][0] for _ in requests]
    finally:
        await client.close()
    assert [(answer.error, answer.base_offset) for answer in answers] == [(0, offset) for offset in range(200)]
    assert lagging.stored() == values


async def test_batches_to_partitions_that_a_topic_has_gained_are_stored_in_order(lagging: Lagging) -> None:
    values, requests = numbered(20)
    lagging.node.store.watch_delay_s = 0.0
    await lagging.create("t")
    await lagging.node.leads(TOPIC_ID)
    lagging.node.store.watch_delay_s = LAG_S
    await lagging.create("t", partitions=2)
    answers = await lagging.produce(requests, partition=1)
    assert [(answer.error, answer.base_offset) for answer in answers] == [(0, offset) for offset in range(20)]
    assert lagging.stored(1) == values


async def test_batches_in_an_epoch_that_the_node_has_not_heard_of_are_stored_in_order(lagging: Lagging) -> None:
    values, requests = numbered(20)
    lagging.node.store.watch_delay_s = 0.0
    await lagging.create("t")
    await lagging.node.leads(TOPIC_ID)
    lagging.node.store.watch_delay_s = LAG_S
    await lagging.node.state(TOPIC_ID, epoch=1)
    await until(lambda: lagging.gateway.image.partition(TOPIC_ID, 0).leader_epoch == 1)  # type: ignore[union-attr]
    answers = await lagging.produce(requests)
    assert [(answer.error, answer.base_offset) for answer in answers] == [(0, offset) for offset in range(20)]
    assert lagging.stored() == values


async def test_batches_sent_before_and_after_the_election_that_a_restart_costs_are_stored_in_order(lagging: Lagging) -> None:
    """The first three name the epoch of the process that died, the last three that of its successor."""
    values, requests = numbered(6)
    lagging.node.store.watch_delay_s = 0.0
    await lagging.create("t")
    await lagging.node.leads(TOPIC_ID)
    await lagging.node.stop()
    await lagging.node.start()
    await until(lambda: lagging.gateway.data_path.nodes.ready(1))
    lagging.node.store.watch_delay_s = LAG_S
    client = await RawClient.connect(lagging.port_base + 1)
    try:
        for number, records in enumerate(requests):
            if number == 3:
                await client.drain()
                await lagging.node.list_offset(TOPIC_ID, -1)  # the first three have arrived by now
                await lagging.node.state(TOPIC_ID, epoch=1)
                await until(lambda: lagging.gateway.image.partition(TOPIC_ID, 0).leader_epoch == 1)  # type: ignore[union-attr]
            client.ask(PRODUCE, 9, produce_body(9, [("t", [(0, records)])]), correlation_id=number)
        answers = [read_produced((await client.answer(PRODUCE, 9))[1], 9)[0][0] for _ in requests]
    finally:
        await client.close()
    assert [(answer.error, answer.base_offset) for answer in answers] == [(0, offset) for offset in range(6)]
    assert lagging.stored() == values


async def test_a_batch_for_a_topic_that_both_know_to_be_gone_is_refused_at_once(lagging: Lagging) -> None:
    lagging.node.store.watch_delay_s = 0.0
    await lagging.create("t")
    await lagging.node.leads(TOPIC_ID)
    await lagging.node.write(keys.topic("t"), None)
    await lagging.node.write(keys.partition(TOPIC_ID, 0), None)
    (answer,) = await lagging.produce([batch(b"x")])
    assert answer.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_clients_that_name_topics_never_hear_of_topic_ids(lagging: Lagging) -> None:
    """The node knows the topic to be gone, the gateway does not yet. Error 100 is for requests that carry ids."""
    lagging.node.store.watch_delay_s = 0.0
    await lagging.create("t")
    await lagging.node.leads(TOPIC_ID)
    lagging.seen_by_gateway.watch_delay_s = 1.0
    await lagging.node.write(keys.topic("t"), None)
    await until(lambda: lagging.node.node and not lagging.node.node.partitions.by_key)
    answers = await lagging.produce(numbered(5)[1])
    assert {answer.error for answer in answers} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    client = await RawClient.connect(lagging.port_base + 1)
    _, (fetched,) = await client.fetch(11, fetch_body(11, [("t", [(0, 0)])]))
    await client.close()
    assert fetched.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_lines_that_kcat_writes_to_a_topic_of_its_own_making_come_back_as_they_were(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """Over and over: whether an image lags at the wrong moment is a matter of luck, and of the machine's load."""
    bootstrap = cluster.bootstrap
    lines = tmp_path / "lines"
    lines.write_bytes(b"".join(b"line %d\n" % number for number in range(20_000)))
    for attempt in range(12):
        name = f"made-by-kcat-{tmp_path.name}-{attempt}"
        run_kcat("-P", "-b", bootstrap, "-t", name, "-p", "0", "-l", str(lines))
        read = run_kcat("-C", "-e", "-q", "-b", bootstrap, "-t", name, "-p", "0").stdout
        assert read == lines.read_bytes(), f"attempt {attempt}"
