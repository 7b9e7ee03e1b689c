"""Who reads here and there is served without asking the leader each time, and never for longer than that is right."""

import os
from collections.abc import Callable
from dataclasses import replace

import pytest

from libs.commitlog.config import LogConfig
from libs.rpc.contracts.outline import OutlineReply, SegmentOutline
from libs.wire.api import ApiKey
from libs.wire.messages import list_offsets as wire
from libs.wire.primitives import Writer
from services.gateway import outlines, read_on, searches
from tests.commitlog.harness import append, batch_at, open_log
from tests.gateway.conftest import TOPIC, Rig, until
from tests.gateway.kafka_client import RawClient, fetch_body
from tests.gateway.test_read_on import whole

BATCHES, EACH = 200, 4
END = BATCHES * EACH
START = 1_700_000_000_000
FETCHED = 1500
VERSION = 6
LIST_OFFSETS = int(ApiKey.LIST_OFFSETS)


@pytest.fixture(autouse=True)
def what_was_told_stays_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is."""
    for module, name in ((outlines, "FRESH_S"), (outlines, "PAUSE_S"), (outlines, "ANSWER_S_MAX"), (read_on, "FRESH_S")):
        monkeypatch.setattr(module, name, 3600.0)


async def start(rig: Rig) -> dict[int, bytes]:
    """Node 1 has a log in two segments, and tells its outline. The batches by their base offsets."""
    await rig.start()
    log = open_log(rig.directory / "log", config=LogConfig(segment_bytes=40_000, index_interval_bytes=100))
    made = {}
    for number in range(BATCHES):
        made[number * EACH] = bytes(batch_at(number * EACH, count=EACH, size=70, timestamp=START + 10 * number))
        append(log, made[number * EACH])
    assert len(log.segments) == 2
    node, rows, number = rig.nodes[1], [], 10
    backlog_at = 0
    for segment in log.segments:
        stem = segment.file.path.removesuffix("log")
        for suffix in ("log", "index", "timeindex"):
            node.named_files[number] = rig.directory / "log" / os.path.basename(stem + suffix)
            number += 1
        rows.append(
            SegmentOutline(
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
    node.outline = OutlineReply(0, 0, END, END, 0, tuple(rows))
    log.close(clean=False)
    node.file = rig.directory / "backlog"  # what the leader answers itself
    node.file.write_bytes(b"".join(made.values()))
    for offset, batch in made.items():
        for each in range(EACH):
            node.backlog[offset + each] = backlog_at
        backlog_at += len(batch)
    return made


def asking(offset: int, *, max_bytes: int = FETCHED, min_bytes: int = 1) -> bytes:
    return fetch_body(12, [(TOPIC, [(0, offset)])], max_bytes=max_bytes, min_bytes=min_bytes)


def leaping(count: int) -> list[int]:
    return [number * 337 % (END - 100) for number in range(count)]


async def leap(rig: Rig, client: RawClient, count: int = 12) -> None:
    """Until the outline is there and the files are open."""
    assert rig.gateway is not None
    for offset in leaping(count):
        await client.fetch(12, asking(offset))
        if rig.nodes[1].outlines:
            await until(lambda: bool(rig.gateway.data_path.outlines._outlined))  # type: ignore[union-attr]
            await until(lambda: not rig.gateway.data_path.files._opening)  # type: ignore[union-attr]


def no_file_is_in_use(rig: Rig) -> bool:
    assert rig.gateway is not None
    return all(file.users == 0 for file in rig.gateway.data_path.files._files.values())


@pytest.mark.parametrize("sendfile_bytes_min", [0, 1 << 30], ids=["sendfile", "pread"])
async def test_fetches_here_and_there_ask_the_leader_few_questions(rig: Rig, sendfile_bytes_min: int) -> None:
    made = await start(rig)
    assert rig.gateway is not None
    rig.gateway.data_path.config = replace(rig.config, sendfile_bytes_min=sendfile_bytes_min)
    client = await rig.client(1)
    await leap(rig, client)
    asked = len(rig.nodes[1].fetches)
    for offset in leaping(300):
        _, (fetched,) = await client.fetch(12, asking(offset))
        assert (fetched.error, fetched.high_watermark) == (0, END)
        assert fetched.records.startswith(made[offset - offset % EACH])
    assert len(rig.nodes[1].fetches) == asked
    assert rig.nodes[1].outlines < 5
    assert no_file_is_in_use(rig)


async def test_who_reads_on_needs_no_outline(rig: Rig) -> None:
    await start(rig)
    client, offset = await rig.client(1), 0
    while offset < END:
        _, (fetched,) = await client.fetch(12, asking(offset))
        offset = whole(fetched.records)[1]
    assert rig.nodes[1].outlines == 0


async def asks_its_leader(rig: Rig, client: RawClient, offset: int, **changes: int) -> bool:
    before = len(rig.nodes[1].fetches)
    await client.fetch(12, asking(offset, **changes))
    assert no_file_is_in_use(rig)
    return len(rig.nodes[1].fetches) > before


async def test_what_was_told_grows_old(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await start(rig)
    client = await rig.client(1)
    await leap(rig, client)
    assert not await asks_its_leader(rig, client, 340)
    monkeypatch.setattr(outlines, "FRESH_S", 0.0)
    assert await asks_its_leader(rig, client, 340)


async def test_a_leader_in_another_epoch_is_asked(rig: Rig) -> None:
    await start(rig)
    client = await rig.client(1)
    await leap(rig, client)
    await rig.lead(0, 1, epoch=1)
    assert rig.gateway is not None
    await rig.gateway.wait_for_revision(rig.store.keyspace.revision, 5)
    assert await asks_its_leader(rig, client, 340)


async def test_what_an_earlier_process_told_is_forgotten(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await start(rig)
    client = await rig.client(1)
    await leap(rig, client)
    assert rig.gateway is not None
    known = rig.gateway.data_path.nodes.storage(1)
    assert known is not None
    monkeypatch.setattr(type(known), "incarnation", property(lambda node: 2))
    assert await asks_its_leader(rig, client, 340)


@pytest.mark.parametrize(
    "change",
    [
        lambda told: replace(told, log_start_offset=400),
        lambda told: replace(told, high_watermark=300),
        lambda told: replace(told, segments=tuple(replace(row, readable_to=100) for row in told.segments)),
        lambda told: replace(told, segments=tuple(replace(row, offset_index=0) for row in told.segments)),
        lambda told: replace(told, segments=()),
        lambda told: replace(told, error=6),
        lambda told: replace(told, leader_epoch=1),
    ],
    ids=["before the start", "beyond the end", "not committed there", "no index", "no segments", "an error", "another epoch"],
)
async def test_what_an_outline_does_not_hold_is_asked_for(rig: Rig, change: Callable[[OutlineReply], OutlineReply]) -> None:
    await start(rig)
    node = rig.nodes[1]
    assert node.outline is not None
    node.outline = change(node.outline)
    client = await rig.client(1)
    for offset in leaping(12):
        await client.fetch(12, asking(offset))
    assert await asks_its_leader(rig, client, 340)


async def test_a_leader_that_knows_no_outlines_is_left_alone(rig: Rig) -> None:
    await start(rig)
    rig.nodes[1].outline = None
    client = await rig.client(1)
    for offset in leaping(50):
        await client.fetch(12, asking(offset))
    assert len(rig.nodes[1].fetches) == 50
    assert rig.nodes[1].outlines == 1


async def test_less_than_the_client_waits_for_is_its_leaders_to_answer(rig: Rig) -> None:
    await start(rig)
    client = await rig.client(1)
    await leap(rig, client)
    for body in ({"min_bytes": FETCHED}, {"max_bytes": 100}):
        other = await rig.client(1)
        await other.fetch(12, asking(8, **body))  # its shape is learnt
        assert await asks_its_leader(rig, other, END - 4, **body) is True


async def test_what_is_not_in_memory_is_its_leaders_to_find(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await start(rig)
    client = await rig.client(1)
    await leap(rig, client)
    monkeypatch.setattr(searches, "_read", lambda *_: None)
    assert await asks_its_leader(rig, client, 340)


async def look_up(client: RawClient, timestamp: int, *, isolation: int = 0, leader_epoch: int = -1) -> tuple[int, int, int, int]:
    """(error, offset, timestamp, leader epoch)"""
    writer = Writer()
    writer.buffer += b"\0"
    asked = wire.ListOffsetsPartition(0, leader_epoch, timestamp)
    wire.write_request(writer, wire.ListOffsetsRequest(-1, isolation, [wire.ListOffsetsTopic(TOPIC, [asked])]), VERSION)
    client.ask(LIST_OFFSETS, VERSION, bytes(writer.buffer))
    _, reader = await client.answer()
    reader.skip_tagged_fields()
    found = wire.read_response(reader, VERSION).topics[0].partitions[0]
    return found.error_code, found.offset, found.timestamp, found.leader_epoch


async def look_up_until_it_is_known(rig: Rig, client: RawClient) -> None:
    assert rig.gateway is not None
    for timestamp in (0, 10, 20, 30, 1500, 40, 50):
        await look_up(client, START + timestamp)
        if rig.nodes[1].outlines:
            await until(lambda: bool(rig.gateway.data_path.outlines._outlined))  # type: ignore[union-attr]
            await until(lambda: not rig.gateway.data_path.files._opening)  # type: ignore[union-attr]


async def test_lookups_by_timestamp_ask_the_leader_few_questions(rig: Rig) -> None:
    await start(rig)
    client = await rig.client(1)
    await look_up_until_it_is_known(rig, client)
    asked = rig.nodes[1].lookups
    for number in range(BATCHES):
        for late, offset in ((0, 0), (1, 1), (3, 3)):
            found = await look_up(client, START + 10 * number + late)
            assert found == (0, number * EACH + offset, START + 10 * number + late, 0)
        if number + 1 < BATCHES:
            assert await look_up(client, START + 10 * number + 4) == (0, (number + 1) * EACH, START + 10 * (number + 1), 0)
    assert await look_up(client, 0) == (0, 0, START, 0)
    assert rig.nodes[1].lookups == asked
    assert no_file_is_in_use(rig)


async def test_that_nothing_is_so_late_is_the_leaders_to_say(rig: Rig) -> None:
    await start(rig)
    client = await rig.client(1)
    await look_up_until_it_is_known(rig, client)
    asked = rig.nodes[1].lookups
    for timestamp in (START + 10 * BATCHES, -1, -2, -3):
        assert (await look_up(client, timestamp))[1] == 77 or timestamp == -3
    assert (await look_up(client, START, leader_epoch=5))[1] == 77
    assert rig.nodes[1].lookups == asked + 4


async def test_what_is_not_stable_is_not_told_to_readers_of_committed_records(rig: Rig) -> None:
    await start(rig)
    node = rig.nodes[1]
    assert node.outline is not None
    node.outline = replace(node.outline, last_stable_offset=400)
    client = await rig.client(1)
    await look_up_until_it_is_known(rig, client)
    asked = node.lookups
    assert (await look_up(client, START + 10 * 99, isolation=1))[1] == 396
    assert (await look_up(client, START + 10 * 100))[1] == 400
    assert node.lookups == asked
    assert (await look_up(client, START + 10 * 100, isolation=1))[1] == 77


async def test_a_segment_whose_greatest_timestamp_is_not_told_is_its_leaders_to_search(rig: Rig) -> None:
    await start(rig)
    node = rig.nodes[1]
    assert node.outline is not None
    first, second = node.outline.segments
    node.outline = replace(node.outline, segments=(SegmentOutline(first.base_offset, first.file_id, first.readable_to), second))
    client = await rig.client(1)
    await look_up_until_it_is_known(rig, client)
    asked = node.lookups
    await look_up(client, START + 1500)
    assert node.lookups == asked + 1
