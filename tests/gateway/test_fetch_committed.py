"""Readers of committed records: the leader names the aborted transactions of its answer, and those ahead of it."""

import pytest

from tests.gateway.backlogs import fill, whole
from tests.gateway.conftest import TOPIC, TOPIC_ID, Rig
from tests.gateway.kafka_client import FETCH, Fetched, RawClient, fetch_body
from tests.support.polling import until

COMMITTED = 1
ABORTED = ((7, 0), (9, 4))


async def ask(client: RawClient, version: int, offset: int, *, isolation: int, max_bytes: int = 2600) -> Fetched:
    topic = TOPIC_ID if version >= 13 else TOPIC
    _, (fetched,) = await client.fetch(
        version, fetch_body(version, [(topic, [(0, offset)])], max_bytes=max_bytes, isolation=isolation)
    )
    return fetched


@pytest.mark.parametrize("version", range(4, 19))
async def test_aborted_transactions_are_listed_for_committed_readers_alone(rig: Rig, version: int) -> None:
    await rig.start()
    fill(rig, 10)
    rig.nodes[1].aborted = ABORTED
    client = await rig.client(1)
    assert (await ask(client, version, 0, isolation=COMMITTED)).aborted == list(ABORTED)
    assert (await ask(client, version, 0, isolation=0)).aborted is None
    rig.nodes[1].aborted = ()
    assert (await ask(client, version, 0, isolation=COMMITTED)).aborted == []


async def test_a_committed_reader_asks_its_leader_where_that_names_no_transactions_ahead(rig: Rig) -> None:
    """Regression 57: the list and the records come from one state, which is the leader's."""
    await rig.start()
    written = fill(rig, 12)
    client = await rig.client(1)
    offset = 0
    while offset < 24:
        rig.nodes[1].aborted = ((7, offset),)
        fetched = await ask(client, 12, offset, isolation=COMMITTED)
        assert fetched.aborted == [(7, offset)]
        batches, following = whole(fetched.records)
        assert batches == b"".join(written[offset // 2 : following // 2])
        offset = following
    assert len(rig.nodes[1].fetches) == 6


async def test_answers_to_others_take_a_committed_reader_no_further(rig: Rig) -> None:
    """Another consumer of the same connection reads past the last stable offset. This one waits there."""
    await rig.start()
    fill(rig, 12)
    rig.nodes[1].stable_to = rig.nodes[1].backlog[8]
    client = await rig.client(1)
    for offset in (0, 4, 8, 12):
        assert (await ask(client, 12, offset, isolation=0)).records
    assert whole((await ask(client, 12, 4, isolation=COMMITTED, max_bytes=1 << 20)).records)[1] == 8
    client.ask(FETCH, 12, fetch_body(12, [(TOPIC, [(0, 8)])], isolation=COMMITTED))
    await until(lambda: len(rig.nodes[1].parked_fetches) == 1)


@pytest.mark.parametrize("version", [5, 11, 12, 16])
async def test_a_committed_reader_reads_on_with_the_transactions_ahead(rig: Rig, version: int) -> None:
    """One that ended before an answer is not named there: it would hide what its producer committed since."""
    await rig.start()
    written = fill(rig, 12)
    rig.nodes[1].aborted = ((7, 0),)
    rig.nodes[1].aborted_ahead = ((7, 0, 3), (8, 2, 9), (7, 12, 15))
    client = await rig.client(1)
    offset = 0
    named: dict[int, list[tuple[int, int]]] = {}
    while offset < 24:
        fetched = await ask(client, version, offset, isolation=COMMITTED)
        assert fetched.aborted is not None
        named[offset] = fetched.aborted
        batches, following = whole(fetched.records)
        assert batches == b"".join(written[offset // 2 : following // 2])
        offset = following
    assert named == {
        0: [(7, 0)],
        4: [(7, 0)],  # the leader's, too: the first request with a template
        8: [(8, 2), (7, 12)],
        12: [(7, 12)],
        16: [],
        20: [],
    }
    assert len(rig.nodes[1].fetches) == 2


async def test_a_committed_reader_that_jumps_asks_its_leader(rig: Rig) -> None:
    await rig.start()
    fill(rig, 12)
    rig.nodes[1].aborted_ahead = ()
    client = await rig.client(1)
    for offset in (0, 4, 16, 0, 16, 0):
        assert (await ask(client, 12, offset, isolation=COMMITTED)).aborted == []
    assert [fetch.partitions[0].fetch_offset for fetch in rig.nodes[1].fetches] == [0, 4, 16, 0, 16, 0]
