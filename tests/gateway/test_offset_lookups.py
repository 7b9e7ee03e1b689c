"""Offset lookups: a reader that jumps is served without a request to the leader each time, while the log layout is fresh."""

import os
from collections.abc import Callable
from dataclasses import replace

import pytest

from libs.commitlog.model.config import LogConfig
from libs.rpc.contracts.log_layout import LogLayoutReply, SegmentLayout
from services.gateway.peers import log_layouts
from services.gateway.peers.file_descriptors import OpenedFile
from services.gateway.shortcuts import sequential_fetch_cache
from tests.commitlog.harness import append, batch_at, open_log
from tests.gateway.backlogs import whole
from tests.gateway.conftest import TOPIC, Rig
from tests.gateway.kafka_client import RawClient, fetch_body
from tests.gateway.listed_offsets import look_up
from tests.support.polling import until

BATCHES, EACH = 200, 4
END = BATCHES * EACH
START = 1_700_000_000_000
FETCHED = 1500


@pytest.fixture(autouse=True)
def what_was_told_stays_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layouts stay fresh, however busy the machine is."""
    for module, name in (
        (log_layouts, "FRESH_S"),
        (log_layouts, "PAUSE_S"),
        (log_layouts, "ANSWER_S_MAX"),
        (sequential_fetch_cache, "FRESH_S"),
    ):
        monkeypatch.setattr(module, name, 3600.0)


async def start(rig: Rig) -> dict[int, bytes]:
    """Starts the rig. Node 1 has a log in two segments, and answers with its layout. Returns the batches by base offset."""
    await rig.start()
    log = open_log(rig.directory / "log", config=LogConfig(segment_bytes=40_000, index_interval_bytes=100))
    written = {}
    for number in range(BATCHES):
        written[number * EACH] = bytes(batch_at(number * EACH, count=EACH, size=70, timestamp=START + 10 * number))
        append(log, written[number * EACH])
    assert len(log.segments) == 2
    node, rows, number = rig.nodes[1], [], 10
    backlog_at = 0
    for segment in log.segments:
        stem = segment.file.path.removesuffix("log")
        for suffix in ("log", "index", "timeindex"):
            node.named_files[number] = rig.directory / "log" / os.path.basename(stem + suffix)
            number += 1
        rows.append(
            SegmentLayout(
                segment.base_offset,
                number - 3,
                segment.size,
                segment.max_timestamp,
                number - 2,
                segment.offset_index.count,
                number - 1,
                segment.time_index.count,
            )
        )
    node.log_layout = LogLayoutReply(0, 0, END, END, 0, tuple(rows))
    log.close(clean=False)
    node.file = rig.directory / "backlog"  # the answers of the leader itself
    node.file.write_bytes(b"".join(written.values()))
    for offset, batch in written.items():
        for each in range(EACH):
            node.backlog[offset + each] = backlog_at
        backlog_at += len(batch)
    return written


def fetch_at(offset: int, *, max_bytes: int = FETCHED, min_bytes: int = 1) -> bytes:
    return fetch_body(12, [(TOPIC, [(0, offset)])], max_bytes=max_bytes, min_bytes=min_bytes)


def jumping_offsets(count: int) -> list[int]:
    return [number * 337 % (END - 100) for number in range(count)]


async def jump(rig: Rig, client: RawClient, count: int = 12) -> None:
    """Jumps until the log layout is known and the files are open."""
    assert rig.gateway is not None
    for offset in jumping_offsets(count):
        await client.fetch(12, fetch_at(offset))
        if rig.nodes[1].log_layouts:
            await until(lambda: rig.gateway.data_path.log_layouts.count)  # type: ignore[union-attr]
            await until(lambda: not rig.gateway.data_path.files.opening)  # type: ignore[union-attr]


def no_file_is_in_use(rig: Rig) -> bool:
    assert rig.gateway is not None
    return not rig.gateway.data_path.files.in_use


@pytest.mark.parametrize("sendfile_bytes_min", [0, 1 << 30], ids=["sendfile", "pread"])
async def test_fetches_here_and_there_ask_the_leader_few_questions(rig: Rig, sendfile_bytes_min: int) -> None:
    written = await start(rig)
    assert rig.gateway is not None
    rig.gateway.data_path.config = replace(rig.config, sendfile_bytes_min=sendfile_bytes_min)
    client = await rig.client(1)
    await jump(rig, client)
    before = len(rig.nodes[1].fetches)
    for offset in jumping_offsets(300):
        _, (fetched,) = await client.fetch(12, fetch_at(offset))
        assert (fetched.error, fetched.high_watermark) == (0, END)
        assert fetched.records.startswith(written[offset - offset % EACH])
    assert len(rig.nodes[1].fetches) == before
    assert rig.nodes[1].log_layouts < 5
    assert no_file_is_in_use(rig)


async def test_a_sequential_reader_needs_no_log_layout(rig: Rig) -> None:
    await start(rig)
    client, offset = await rig.client(1), 0
    while offset < END:
        _, (fetched,) = await client.fetch(12, fetch_at(offset))
        offset = whole(fetched.records)[1]
    assert rig.nodes[1].log_layouts == 0


async def asks_its_leader(rig: Rig, client: RawClient, offset: int, **changes: int) -> bool:
    before = len(rig.nodes[1].fetches)
    await client.fetch(12, fetch_at(offset, **changes))
    assert no_file_is_in_use(rig)
    return len(rig.nodes[1].fetches) > before


async def test_a_log_layout_grows_old(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await start(rig)
    client = await rig.client(1)
    await jump(rig, client)
    assert not await asks_its_leader(rig, client, 340)
    monkeypatch.setattr(log_layouts, "FRESH_S", 0.0)
    assert await asks_its_leader(rig, client, 340)


async def test_a_leader_in_another_epoch_is_asked(rig: Rig) -> None:
    await start(rig)
    client = await rig.client(1)
    await jump(rig, client)
    await rig.lead(0, 1, epoch=1)
    assert rig.gateway is not None
    await rig.gateway.wait_for_revision(rig.store.keyspace.revision, 5)
    assert await asks_its_leader(rig, client, 340)


async def test_a_log_layout_of_an_earlier_process_is_forgotten(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await start(rig)
    client = await rig.client(1)
    await jump(rig, client)
    assert rig.gateway is not None
    known = rig.gateway.data_path.nodes.storage(1)
    assert known is not None
    monkeypatch.setattr(type(known), "incarnation", property(lambda node: 2))
    assert await asks_its_leader(rig, client, 340)


@pytest.mark.parametrize(
    "change",
    [
        lambda layout: replace(layout, log_start_offset=400),
        lambda layout: replace(layout, high_watermark=300),
        lambda layout: replace(layout, segments=tuple(replace(row, readable_to=100) for row in layout.segments)),
        lambda layout: replace(layout, segments=tuple(replace(row, offset_index=0) for row in layout.segments)),
        lambda layout: replace(layout, segments=()),
        lambda layout: replace(layout, error=6),
        lambda layout: replace(layout, leader_epoch=1),
    ],
    ids=["before the start", "beyond the end", "not committed there", "no index", "no segments", "an error", "another epoch"],
)
async def test_the_leader_is_asked_where_a_log_layout_does_not_tell(
    rig: Rig, change: Callable[[LogLayoutReply], LogLayoutReply]
) -> None:
    await start(rig)
    node = rig.nodes[1]
    assert node.log_layout is not None
    node.log_layout = change(node.log_layout)
    client = await rig.client(1)
    for offset in jumping_offsets(12):
        await client.fetch(12, fetch_at(offset))
    assert await asks_its_leader(rig, client, 340)


async def test_a_leader_that_knows_no_log_layouts_is_left_alone(rig: Rig) -> None:
    await start(rig)
    rig.nodes[1].log_layout = None
    client = await rig.client(1)
    for offset in jumping_offsets(50):
        await client.fetch(12, fetch_at(offset))
    assert len(rig.nodes[1].fetches) == 50
    assert rig.nodes[1].log_layouts == 1


async def test_less_than_the_client_waits_for_is_its_leaders_to_answer(rig: Rig) -> None:
    await start(rig)
    client = await rig.client(1)
    await jump(rig, client)
    for body in ({"min_bytes": FETCHED}, {"max_bytes": 100}):
        other = await rig.client(1)
        await other.fetch(12, fetch_at(8, **body))  # its template is learnt
        assert await asks_its_leader(rig, other, END - 4, **body) is True


async def test_bytes_that_are_not_in_memory_are_the_leaders_to_find(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await start(rig)
    client = await rig.client(1)
    await jump(rig, client)
    monkeypatch.setattr(OpenedFile, "read_cached", lambda *_: None)
    assert await asks_its_leader(rig, client, 340)


async def look_up_until_it_is_known(rig: Rig, client: RawClient) -> None:
    assert rig.gateway is not None
    for timestamp in (0, 10, 20, 30, 1500, 40, 50):
        await look_up(client, START + timestamp)
        if rig.nodes[1].log_layouts:
            await until(lambda: rig.gateway.data_path.log_layouts.count)  # type: ignore[union-attr]
            await until(lambda: not rig.gateway.data_path.files.opening)  # type: ignore[union-attr]


async def test_lookups_by_timestamp_ask_the_leader_few_questions(rig: Rig) -> None:
    await start(rig)
    client = await rig.client(1)
    await look_up_until_it_is_known(rig, client)
    before = rig.nodes[1].lookups
    for number in range(BATCHES):
        for late, offset in ((0, 0), (1, 1), (3, 3)):
            listed = await look_up(client, START + 10 * number + late)
            assert listed == (0, number * EACH + offset, START + 10 * number + late, 0)
        if number + 1 < BATCHES:
            assert await look_up(client, START + 10 * number + 4) == (0, (number + 1) * EACH, START + 10 * (number + 1), 0)
    assert await look_up(client, 0) == (0, 0, START, 0)
    assert rig.nodes[1].lookups == before
    assert no_file_is_in_use(rig)


async def test_that_nothing_is_so_late_is_the_leaders_to_say(rig: Rig) -> None:
    await start(rig)
    client = await rig.client(1)
    await look_up_until_it_is_known(rig, client)
    before = rig.nodes[1].lookups
    for timestamp in (START + 10 * BATCHES, -1, -2, -3):
        assert (await look_up(client, timestamp))[1] == 77 or timestamp == -3
    assert (await look_up(client, START, leader_epoch=5))[1] == 77
    assert rig.nodes[1].lookups == before + 4


async def test_readers_of_committed_records_get_no_unstable_ones(rig: Rig) -> None:
    await start(rig)
    node = rig.nodes[1]
    assert node.log_layout is not None
    node.log_layout = replace(node.log_layout, last_stable_offset=400)
    client = await rig.client(1)
    await look_up_until_it_is_known(rig, client)
    before = node.lookups
    assert (await look_up(client, START + 10 * 99, isolation=1))[1] == 396
    assert (await look_up(client, START + 10 * 100))[1] == 400
    assert node.lookups == before
    assert (await look_up(client, START + 10 * 100, isolation=1))[1] == 77


async def test_the_leader_searches_a_segment_whose_greatest_timestamp_is_unknown(rig: Rig) -> None:
    await start(rig)
    node = rig.nodes[1]
    assert node.log_layout is not None
    first, second = node.log_layout.segments
    node.log_layout = replace(
        node.log_layout, segments=(SegmentLayout(first.base_offset, first.file_id, first.readable_to), second)
    )
    client = await rig.client(1)
    await look_up_until_it_is_known(rig, client)
    before = node.lookups
    await look_up(client, START + 1500)
    assert node.lookups == before + 1
