"""The sequential fetch cache: a consumer that reads a backlog is served without a request to the leader each time, for
`FRESH_S`."""

import errno
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from libs.cluster import keys
from libs.cluster.records import InSync, PartitionState, Replica, Topic
from libs.rpc.files.passed_files import OsPassedFiles
from services.gateway.core.sequential_reads import BATCHES_MAX, HEADER, end_of_batches
from services.gateway.peers.file_descriptors import OpenedFile
from services.gateway.shortcuts import sequential_fetch_cache
from tests.gateway.backlogs import BATCH, batch_at, fill, whole
from tests.gateway.conftest import TOPIC, TOPIC_ID, Rig
from tests.gateway.kafka_client import FETCH, RawClient, fetch_body
from tests.support.polling import until


@pytest.fixture(autouse=True)
def fresh_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long `FRESH_S`: on a busy machine the next fetch may come late."""
    monkeypatch.setattr(sequential_fetch_cache, "FRESH_S", 60.0)


async def read_all(client: RawClient, end: int, version: int = 12, max_bytes: int = 2600) -> bytes:
    topic = TOPIC_ID if version >= 13 else TOPIC
    offset, records = 0, b""
    while offset < end:
        _, (fetched,) = await client.fetch(version, fetch_body(version, [(topic, [(0, offset)])], max_bytes=max_bytes))
        assert (fetched.error, fetched.high_watermark) == (0, end // 2)
        batches, offset = whole(fetched.records)
        records += batches
    return records


@pytest.mark.parametrize("sendfile_bytes_min", [0, 1 << 30], ids=["sendfile", "pread"])
@pytest.mark.parametrize("version", [5, 12, 17])
async def test_a_backlog_is_read_with_few_questions_to_the_leader(rig: Rig, version: int, sendfile_bytes_min: int) -> None:
    await rig.start(sendfile_bytes_min=sendfile_bytes_min)
    written = fill(rig, 60)
    assert await read_all(await rig.client(1), 120, version) == b"".join(written)
    assert len(rig.nodes[1].fetches) < 10, "two batches an answer, and hardly an RPC"


async def test_its_end_is_the_leaders_to_say(rig: Rig) -> None:
    await rig.start()
    fill(rig, 10)
    client = await rig.client(1)
    await read_all(client, 20)
    client.ask(FETCH, 12, fetch_body(12, [(TOPIC, [(0, 20)])], max_bytes=2600))
    await until(lambda: len(rig.nodes[1].parked_fetches) == 1)


async def test_an_answer_that_has_left_stands_when_its_file_cannot_be_mapped(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "no descriptor left")

    await rig.start(sendfile_bytes_min=0)
    written = fill(rig, 60)
    client = await rig.client(1)
    monkeypatch.setattr("libs.rpc.files.passed_files.mmap.mmap", refuse)
    assert await read_all(client, 120) == b"".join(written)
    assert rig.gateway is not None
    assert not rig.gateway.data_path.files.in_use


def file_of(path: Path, batches: int) -> OpenedFile:
    path.write_bytes(b"".join(batch_at(2 * number) for number in range(batches)))
    return OpenedFile(os.open(path, os.O_RDONLY), OsPassedFiles(), lambda: None)


def test_a_file_that_is_cut_under_its_mapping_is_the_leaders_to_tell_of(tmp_path: Path) -> None:
    """A read beyond the cut, as of an unreadable sector, would be a SIGBUS and kill the gateway."""
    file = file_of(tmp_path / "log", 40)
    size = os.path.getsize(tmp_path / "log")
    assert sequential_fetch_cache.end_in_file(file, 0, size) == (80, size)
    assert sequential_fetch_cache.end_in_file(file, size // 2, size // 2) == (80, size // 2)
    for length in (size // 2 + 10, 0):
        os.truncate(tmp_path / "log", length)
        assert sequential_fetch_cache.end_in_file(file, size // 2, size // 2) is None
        assert sequential_fetch_cache.end_in_file(file, 0, size) is None
    file.evict()


def test_an_older_kernel_reads_the_headers_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("libs.rpc.files.passed_files.MADV_POPULATE_READ", 12345)
    file = file_of(tmp_path / "log", 40)
    size = os.path.getsize(tmp_path / "log")
    assert sequential_fetch_cache.end_in_file(file, 0, size) == (80, size)
    file.evict()


async def test_more_than_there_is_is_the_leaders_to_wait_for(rig: Rig) -> None:
    await rig.start()
    written = fill(rig, 6)
    client = await rig.client(1)
    for number in range(4):
        body = fetch_body(12, [(TOPIC, [(0, 2 * number)])], max_bytes=2 * BATCH, min_bytes=2 * BATCH)
        _, (fetched,) = await client.fetch(12, body)
        assert whole(fetched.records)[0] == written[number]
    assert len(rig.nodes[1].fetches) == 2
    await client.fetch(12, fetch_body(12, [(TOPIC, [(0, 10)])], max_bytes=2 * BATCH, min_bytes=2 * BATCH))
    assert rig.nodes[1].fetches[-1].partitions[0].fetch_offset == 10


@pytest.mark.parametrize("sendfile_bytes_min", [0, BATCH, 1 << 30], ids=["sendfile", "both", "pread"])
@pytest.mark.parametrize("limit", [1, 100, BATCH // 2])
async def test_a_batch_beyond_the_clients_limit_comes_whole_and_without_a_question(
    rig: Rig, sendfile_bytes_min: int, limit: int
) -> None:
    """As in Kafka (KIP-74): a consumer whose limit is below its batches gets one of them at a time."""
    await rig.start(sendfile_bytes_min=sendfile_bytes_min)
    written = fill(rig, 8)
    client = await rig.client(1)
    for number in range(8):
        _, (fetched,) = await client.fetch(12, fetch_body(12, [(TOPIC, [(0, 2 * number)])], max_bytes=limit))
        assert fetched.records == written[number]
    assert len(rig.nodes[1].fetches) == 2, "the second one is the first that a template serves"
    assert rig.gateway is not None
    assert not rig.gateway.data_path.files.in_use


async def test_a_batch_that_is_not_committed_to_its_end_is_the_leaders_to_wait_for(rig: Rig) -> None:
    await rig.start()
    fill(rig, 8)
    rig.nodes[1].stable_to = rig.nodes[1].backlog[6] + BATCH // 2
    rig.nodes[1].aborted_ahead = ()
    client = await rig.client(1)
    for offset in (0, 2, 4, 6):
        client.ask(FETCH, 12, fetch_body(12, [(TOPIC, [(0, offset)])], max_bytes=BATCH // 4, isolation=1))
    await until(lambda: [fetch.partitions[0].fetch_offset for fetch in rig.nodes[1].fetches] == [0, 2, 6])


async def learn(rig: Rig) -> tuple[RawClient, Callable[[int], bytes]]:
    """A client whose fetch from offset 4 would be served from the cache."""
    await rig.start()
    fill(rig, 30)
    client = await rig.client(1)

    def body(offset: int) -> bytes:
        return fetch_body(12, [(TOPIC, [(0, offset)])], max_bytes=BATCH + 500)

    for offset in (0, 2):
        await client.fetch(12, body(offset))
    assert len(rig.nodes[1].fetches) == 2
    return client, body


async def test_the_cache_grows_old(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequential_fetch_cache, "FRESH_S", 0.0)
    client, body = await learn(rig)
    await client.fetch(12, body(4))
    assert len(rig.nodes[1].fetches) == 3


async def test_another_offset_is_asked_for(rig: Rig) -> None:
    client, body = await learn(rig)
    await client.fetch(12, body(20))
    assert rig.nodes[1].fetches[-1].partitions[0].fetch_offset == 20


async def test_a_new_epoch_is_asked_for(rig: Rig) -> None:
    client, body = await learn(rig)
    await rig.lead(0, 1, epoch=1)
    assert rig.gateway is not None
    routes = lambda: rig.gateway.data_path.routes.topic(TOPIC).partition(0)  # type: ignore[union-attr]  # noqa: E731
    await until(lambda: routes().leader_epoch == 1)
    await client.fetch(12, body(4))
    assert len(rig.nodes[1].fetches) == 3


async def recreate(rig: Rig) -> bytes:
    """Creates another topic of the same name, with the same leader in the same epoch."""
    topic_id = bytes(range(100, 116))
    await rig.put(keys.partition(topic_id, 0), PartitionState((Replica(1, ""),), 1, 1, 0, 0, (InSync(1, 1),)))
    await rig.put(keys.topic(TOPIC), Topic(TOPIC, topic_id.hex(), 1))
    assert rig.gateway is not None
    await rig.gateway.wait_for_revision(rig.store.keyspace.revision, 5)
    return topic_id


async def test_a_topic_made_again_is_asked_for(rig: Rig) -> None:
    client, body = await learn(rig)
    topic_id = await recreate(rig)
    await client.fetch(12, body(4))
    assert [fetch.partitions[0].topic_id for fetch in rig.nodes[1].fetches] == [TOPIC_ID, TOPIC_ID, topic_id]


async def test_an_answer_about_a_topic_that_was_made_again_meanwhile_teaches_nothing(rig: Rig) -> None:
    client, body = await learn(rig)
    node = rig.nodes[1]
    node.holding_fetches = True
    client.ask(FETCH, 12, body(20))
    await until(lambda: len(node.parked_fetches) == 1)
    topic_id = await recreate(rig)
    node.holding_fetches = False
    node.answer_fetch(node.parked_fetches.pop())
    await client.answer(FETCH, 12)
    await client.fetch(12, body(22))
    assert rig.nodes[1].fetches[-1].partitions[0].topic_id == topic_id


async def test_a_leader_that_is_gone_is_waited_for(rig: Rig) -> None:
    client, body = await learn(rig)
    assert rig.gateway is not None
    node = rig.gateway.data_path.nodes.storage(1)
    assert node is not None
    await rig.nodes[1].stop()
    await until(lambda: not node.client.connected)
    client.ask(FETCH, 12, body(4))
    await rig.nodes[1].start()
    await client.answer(FETCH, 12)
    assert len(rig.nodes[1].fetches) == 3


async def test_an_answer_of_an_earlier_process_is_not_used(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leader and epoch are the same, since the image does not show the restart yet. The file id names another file by now."""
    client, body = await learn(rig)
    assert rig.gateway is not None
    known = rig.gateway.data_path.nodes.storage(1)
    assert known is not None
    monkeypatch.setattr(type(known), "incarnation", property(lambda node: 2))
    await client.fetch(12, body(4))
    assert len(rig.nodes[1].fetches) == 3


def test_the_end_is_that_of_the_last_whole_batch() -> None:
    batches = batch_at(7, 3) + batch_at(10) + batch_at(12)
    size = len(batch_at(7, 3)) + len(batch_at(10))

    def header_at(position: int) -> tuple[int, int, int]:
        return HEADER.unpack_from(batches, position)

    assert end_of_batches(len(batches), header_at) == (14, len(batches))
    assert end_of_batches(len(batches) - 1, header_at) == (12, size)
    assert end_of_batches(size + 20, header_at) == (12, size)
    assert end_of_batches(100, header_at) is None
    assert end_of_batches(len(batches), lambda _position: None) is None
    assert end_of_batches(100, lambda _position: (0, -5, 0)) is None


def test_many_small_batches_are_not_all_looked_at() -> None:
    looked: list[int] = []

    def header_at(position: int) -> tuple[int, int, int]:
        looked.append(position)
        return 0, 88, 0

    assert end_of_batches(1 << 20, header_at) is None
    assert len(looked) < BATCHES_MAX / 2
    assert end_of_batches(1000, header_at) == (1, 1000)


def test_the_header_is_a_batch_header() -> None:
    assert HEADER.size == 61
    assert HEADER.unpack_from(batch_at(5, 4)) == (5, struct.unpack_from(">i", batch_at(5, 4), 8)[0], 3)
