"""Fetch, through a real gateway to storage nodes that speak the real RPC."""

import asyncio
import gc
import os

import pytest

from libs.cluster import features, keys
from libs.rpc.contracts.storage import Fetched
from libs.rpc.transport import socket_stream
from libs.rpc.transport.descriptors import Ancillary, close_all, received_descriptors
from libs.wire.errors import ErrorCode
from services.gateway.exchange.exchange import Exchange
from services.gateway.fetch.pending_fetch import PendingFetch
from services.gateway.peers.file_descriptors import FileGone
from tests.gateway.conftest import TOPIC, TOPIC_ID, Rig
from tests.gateway.fake_gateway import context
from tests.gateway.fetch_requests import VERSIONS, name_of, with_file
from tests.gateway.kafka_client import FETCH, RawClient, fetch_body, read_fetched
from tests.support.polling import until


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_version_reads_back_the_bytes(rig: Rig, version: int) -> None:
    await rig.start()
    content = with_file(rig, 10_000)
    error, (fetched,) = await (await rig.client(1)).fetch(version, fetch_body(version, [(name_of(version), [(0, 0)])]))
    assert (error, fetched.error, fetched.high_watermark) == (0, 0, 9)
    assert fetched.records == content


@pytest.mark.parametrize(
    ("sendfile_bytes_min", "inline"),
    [(0, False), (1 << 40, False), (250_000, False), (0, True)],
    ids=["sendfile", "pread", "one range of each", "inline"],
)
async def test_sendfile_pread_and_inline_give_the_same_bytes(rig: Rig, sendfile_bytes_min: int, inline: bool) -> None:
    await rig.start(sendfile_bytes_min=sendfile_bytes_min)
    rig.nodes[1].inline = inline
    content = with_file(rig, 600_000)  # one range of 200,000, one of 400,000
    client = await rig.client(1)
    for _ in range(3):
        _, fetched = await client.fetch(12, fetch_body(12, [(TOPIC, [(0, 0), (1, 0)])]))
        assert [f.records == content for f in fetched] == [True, True]
    assert rig.nodes[1].opened == (0 if inline else 1)


async def test_nothing_of_an_answered_fetch_is_left_for_the_garbage_collector(rig: Rig) -> None:
    await rig.start()
    with_file(rig, 1000)
    client = await rig.client(1)
    await client.fetch(12, fetch_body(12, [(TOPIC, [(0, 0)])]))
    gc.collect()
    gc.disable()
    try:
        for offset in range(5):
            await client.fetch(12, fetch_body(12, [(TOPIC, [(0, offset)])]))
            await client.fetch(12, fetch_body(12, [(TOPIC, [(0, offset), (2, 0)])]))
        left = [thing for thing in gc.get_objects() if isinstance(thing, Exchange | PendingFetch)]
    finally:
        gc.enable()
    assert left == []


async def test_the_gateway_introduces_itself_with_the_cluster_and_its_feature_level(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "FEATURE_LEVEL", 3)
    await rig.put(keys.CLUSTER_ID, "this-cluster")
    await rig.put(keys.FEATURE_LEVEL, 3)
    await rig.start()
    with_file(rig, 100)
    await (await rig.client(1)).fetch(12, fetch_body(12, [(TOPIC, [(0, 0)])]))
    peer = rig.nodes[1].asked_by
    assert peer is not None
    assert (peer.role, peer.node_id, peer.cluster_id, peer.feature_level) == ("gateway", 1, "this-cluster", 3)


async def test_pipelined_fetches_are_asked_one_at_a_time(rig: Rig) -> None:
    await rig.start()
    content = with_file(rig, 3_000_000)
    client = await rig.client(1)
    for number in range(4):
        client.ask(FETCH, 12, fetch_body(12, [(TOPIC, [(0, 0)])]), correlation_id=number)
    for number in range(4):
        correlation_id, reader = await client.answer(FETCH, 12)
        assert correlation_id == number
        assert read_fetched(reader, 12)[1][0].records == content


async def test_a_client_that_hangs_up_ends_its_parked_fetch(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    client.ask(FETCH, 12, fetch_body(12, [(TOPIC, [(0, 0)])], max_wait_ms=60_000))
    await until(lambda: len(rig.nodes[1].parked_fetches) == 1)
    await client.close()
    await until(lambda: rig.nodes[1].cancelled == 1)


async def test_partitions_of_other_leaders_name_them(rig: Rig) -> None:
    await rig.start()
    content = with_file(rig, 1000)
    client = await rig.client(1)
    client.ask(FETCH, 16, fetch_body(16, [(TOPIC_ID, [(0, 0), (2, 0)])], max_wait_ms=60_000))
    _, (ours, theirs), endpoints = read_fetched((await client.answer(FETCH, 16))[1], 16)
    assert (ours.error, ours.records) == (0, content)
    assert (theirs.error, theirs.leader, theirs.leader_epoch) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2, 0)
    assert endpoints == [(2, "127.0.0.1", rig.port_base + 2)]
    assert [len(request.partitions) for request in rig.nodes[1].fetches] == [1]
    assert rig.nodes[1].fetches[0].max_wait_ms == 0, "an error is answered at once"
    assert rig.nodes[2].fetches == []


async def test_a_brokers_port_serves_what_that_broker_leads_and_nothing_else(rig: Rig) -> None:
    """One port per broker id: a client that asks broker 2 must not be answered by broker 1."""
    gateway = await rig.start()
    client = await rig.client(2)
    client.ask(FETCH, 16, fetch_body(16, [(TOPIC_ID, [(0, 0)])], max_wait_ms=60_000))
    _, (other,), _ = read_fetched((await client.answer(FETCH, 16))[1], 16)
    assert (other.error, other.leader) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 1)
    assert rig.nodes[1].fetches == []
    assert [gateway.broker_endpoint(node, context(12)) for node in (1, 2)] == [
        ("127.0.0.1", rig.port_base + 1),
        ("127.0.0.1", rig.port_base + 2),
    ]


async def test_the_bootstrap_port_asks_the_first_partitions_leader(rig: Rig) -> None:
    await rig.start()
    content = with_file(rig, 1000)
    _, (first, second) = await (await rig.client()).fetch(12, fetch_body(12, [(TOPIC, [(0, 0), (2, 0)])]))
    assert (first.error, first.records) == (0, content)
    assert second.error == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_unknown_topics_partitions_and_ids_have_their_own_errors(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    _, fetched = await client.fetch(12, fetch_body(12, [("nowhere", [(0, 0)]), (TOPIC, [(9, 0)])]))
    assert [f.error for f in fetched] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    _, (unknown,) = await client.fetch(13, fetch_body(13, [(b"\7" * 16, [(0, 0)])]))
    assert (unknown.topic, unknown.error) == (b"\7" * 16, ErrorCode.UNKNOWN_TOPIC_ID)


async def test_row_48_an_incremental_fetch_has_no_session(rig: Rig) -> None:
    await rig.start()
    error, fetched = await (await rig.client(1)).fetch(12, fetch_body(12, [], session=(77, 1)))
    assert (error, fetched) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])


async def test_a_full_fetch_that_ends_a_session_is_served(rig: Rig) -> None:
    await rig.start()
    content = with_file(rig, 100)
    error, (fetched,) = await (await rig.client(1)).fetch(12, fetch_body(12, [(TOPIC, [(0, 0)])], session=(77, -1)))
    assert (error, fetched.records) == (0, content)


async def test_row_49_the_leaders_judgement_of_epochs_and_offsets_is_passed_on(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    client.ask(FETCH, 12, fetch_body(12, [(TOPIC, [(0, 5)])], leader_epoch=3))
    await until(lambda: len(rig.nodes[1].parked_fetches) == 1)
    (partition,) = rig.nodes[1].fetches[0].partitions
    assert (partition.current_leader_epoch, partition.fetch_offset) == (3, 5)
    rig.nodes[1].parked_fetches[0].reply([[[ErrorCode.UNKNOWN_LEADER_EPOCH]]])
    assert read_fetched((await client.answer(FETCH, 12))[1], 12)[1][0].error == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize(("version", "error"), [(10, ErrorCode.NOT_LEADER_OR_FOLLOWER), (11, ErrorCode.OFFSET_NOT_AVAILABLE)])
async def test_a_client_that_is_too_old_for_an_offset_that_is_not_available_yet_asks_again(
    rig: Rig, version: int, error: ErrorCode
) -> None:
    await rig.start()
    client = await rig.client(1)
    client.ask(FETCH, version, fetch_body(version, [(TOPIC, [(0, 5)])]))
    await until(lambda: len(rig.nodes[1].parked_fetches) == 1)
    rig.nodes[1].parked_fetches[0].reply([[[ErrorCode.OFFSET_NOT_AVAILABLE]]])
    assert read_fetched((await client.answer(FETCH, version))[1], version)[1][0].error == error


async def test_row_36_a_fetch_as_a_replica_is_refused(rig: Rig) -> None:
    await rig.start()
    _, (fetched,) = await (await rig.client(1)).fetch(12, fetch_body(12, [(TOPIC, [(0, 0)])], replica_id=2))
    assert fetched.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert rig.nodes[1].fetches == []


async def test_the_whole_answer_has_a_limit_of_ours(rig: Rig) -> None:
    await rig.start()
    with_file(rig, 10)
    await (await rig.client(1)).fetch(12, fetch_body(12, [(TOPIC, [(0, 0)])], max_bytes=(1 << 31) - 1))
    assert rig.nodes[1].fetches[0].max_bytes == 57_671_680


async def test_a_fetch_outlives_a_restart_of_its_node(rig: Rig) -> None:
    await rig.start()
    node = rig.nodes[1]
    client = await rig.client(1)
    client.ask(FETCH, 12, fetch_body(12, [(TOPIC, [(0, 0)])], max_wait_ms=5000))
    await until(lambda: len(node.parked_fetches) == 1)
    await node.stop()
    content = with_file(rig, 1000)
    node.incarnation = 2
    await node.start()
    await rig.register(node)
    assert read_fetched((await client.answer(FETCH, 12))[1], 12)[1][0].records == content


async def test_a_fetch_outlives_a_clean_stop_of_its_node(rig: Rig) -> None:
    await rig.start()
    node = rig.nodes[1]
    client = await rig.client(1)
    node.begin_to_stop()
    client.ask(FETCH, 12, fetch_body(12, [(TOPIC, [(0, 0)])], max_wait_ms=10))
    assert read_fetched((await client.answer(FETCH, 12))[1], 12)[1][0].error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    client.ask(FETCH, 12, fetch_body(12, [(TOPIC, [(0, 0)])], max_wait_ms=5000))
    await asyncio.sleep(0.05)
    content = with_file(rig, 1000)
    await node.stop()
    node.incarnation = 2
    await node.start()
    await rig.register(node)
    assert read_fetched((await client.answer(FETCH, 12))[1], 12)[1][0].records == content


async def test_a_fetch_that_is_asked_again_waits_no_longer_than_its_client_does(rig: Rig) -> None:
    await rig.start()
    node = rig.nodes[1]
    client = await rig.client(1)
    client.ask(FETCH, 12, fetch_body(12, [(TOPIC, [(0, 0)])], max_wait_ms=5000))
    await until(lambda: len(node.parked_fetches) == 1)
    await node.stop()
    await node.start()
    await until(lambda: len(node.fetches) == 2)
    first, again = [partition.max_wait_ms for partition in node.fetches]
    assert first == 5000
    assert again < 5000


async def test_a_deleted_file_is_asked_for_again(rig: Rig) -> None:
    await rig.start()
    node = rig.nodes[1]
    content = with_file(rig, 1000)
    node.file_gone = True
    client = await rig.client(1)
    client.ask(FETCH, 12, fetch_body(12, [(TOPIC, [(0, 0)])], max_wait_ms=5000))
    await until(lambda: node.opened > 0)
    node.file_gone = False
    assert read_fetched((await client.answer(FETCH, 12))[1], 12)[1][0].records == content


async def test_a_fetch_that_does_not_wait_is_sent_again_after_its_file_was_deleted(rig: Rig) -> None:
    await rig.start()
    node = rig.nodes[1]
    content = with_file(rig, 1000)
    node.file_gone = True
    client = await rig.client(1)
    _, (fetched,) = await client.fetch(12, fetch_body(12, [(TOPIC, [(0, 0)])], max_wait_ms=0))
    assert (fetched.error, fetched.records) == (0, content)
    assert [request.inline for request in node.fetches] == [False, True]


async def test_a_gateway_without_room_for_descriptors_serves_fetches_by_copying(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = await rig.start()
    content = with_file(rig, 300_000)
    client = await rig.client(1)
    body = fetch_body(12, [(TOPIC, [(0, 0)])], max_wait_ms=0)
    storage_node = gateway.data_path.nodes.storage(1)
    assert storage_node is not None
    await storage_node.client.ready(5)
    connection = storage_node.client.connection

    def no_room(ancillary: Ancillary, flags: int) -> None:
        close_all(received_descriptors(ancillary, flags) or ())

    with monkeypatch.context() as patched:
        patched.setattr(socket_stream, "received_descriptors", no_room)
        for _ in range(3):
            _, (fetched,) = await client.fetch(12, body)
            assert (fetched.error, fetched.records == content) == (0, True)
        assert (len(gateway.data_path.files), gateway.meters.files_not_opened) == (0, 3)
    _, (fetched,) = await client.fetch(12, body)
    assert fetched.records == content
    assert len(gateway.data_path.files) == 1
    assert [request.inline for request in rig.nodes[1].fetches] == [False, True] * 3 + [False]
    assert storage_node.client.connection is connection


async def test_a_file_that_another_process_opened_under_that_number_is_not_taken(rig: Rig) -> None:
    """The node restarts between its answer and the opening. The file id may then name another partition's file."""
    gateway = await rig.start()
    with_file(rig, 1000)
    files = gateway.data_path.files
    node = gateway.data_path.nodes.storage(1)
    assert node is not None
    await node.client.ready(5)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FileGone):
        await files.open(node, (1, node.incarnation - 1, 1))
    assert rig.nodes[1].opened == 1
    assert (len(files), len(os.listdir("/proc/self/fd"))) == (0, before)


async def test_an_answer_that_holds_an_evicted_file_reads_it_to_its_end(rig: Rig) -> None:
    """A slow client reads while another incarnation's file takes the only place in the table."""
    gateway = await rig.start(sendfile_bytes_min=0, open_files_max=1)
    content = with_file(rig, 20_000_000)
    client = await rig.client(1)
    client.ask(FETCH, 12, fetch_body(12, [(TOPIC, [(0, 0)])]))
    await until(lambda: rig.nodes[1].opened == 1)
    await asyncio.sleep(0.05)
    gateway.data_path.files.forget(1, 99)
    assert len(gateway.data_path.files) == 0
    assert read_fetched((await client.answer(FETCH, 12))[1], 12)[1][0].records == content


async def test_files_that_slow_clients_hold_open_are_bounded_and_the_next_client_gets_copies(rig: Rig) -> None:
    """An evicted file stays open while an answer sends from it, so a table of bounded size alone bounds nothing."""
    gateway = await rig.start(sendfile_bytes_min=0, open_files_max=1)
    files, node = gateway.data_path.files, rig.nodes[1]
    content = with_file(rig, 20_000_000)
    request = fetch_body(12, [(TOPIC, [(0, 0)])])
    slow = [await RawClient.connect(rig.port_base + 1, limit=1 << 16) for _ in range(3)]
    for number, client in enumerate(slow):
        client.ask(FETCH, 12, request)
        await until(lambda: gateway.meters.bytes_out > (number + 1) * 20_000_000)  # noqa: B023
        files.forget(1, 99)
    assert (len(files), files.opened_now) == (0, 2)
    assert node.opened == 2
    assert [fetch.inline for fetch in node.fetches] == [False, False, False, True]
    for client in slow:
        assert read_fetched((await client.answer(FETCH, 12))[1], 12)[1][0].records == content
        await client.close()
    await until(lambda: files.opened_now == 0)
    _, (fetched,) = await (await rig.client(1)).fetch(12, request)
    assert (fetched.records == content, files.opened_now) == (True, 1)


async def test_a_fetch_that_is_parked_at_a_replaced_leader_hears_at_once_of_the_new_one(rig: Rig) -> None:
    """The replaced leader may be stopped or cut off, and never answer."""
    await rig.start()
    rig.nodes[1].holding_fetches = True
    client = await rig.client(1)
    client.ask(FETCH, 16, fetch_body(16, [(TOPIC_ID, [(0, 0)])], max_wait_ms=60_000))
    await until(lambda: len(rig.nodes[1].parked_fetches) == 1)
    await rig.lead(0, 2, 1)
    _, (partition_result,), endpoints = read_fetched((await client.answer(FETCH, 16))[1], 16)
    assert (partition_result.error, partition_result.leader, partition_result.leader_epoch) == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        2,
        1,
    )
    assert endpoints == [(2, "127.0.0.1", rig.port_base + 2)]
    await until(lambda: rig.nodes[1].cancelled == 1)


async def test_a_fetch_on_the_bootstrap_port_goes_to_the_new_leader(rig: Rig) -> None:
    await rig.start()
    content = with_file(rig, 1000)
    rig.nodes[2].file = rig.nodes[1].file
    rig.nodes[1].holding_fetches = True
    client = await rig.client()
    client.ask(FETCH, 12, fetch_body(12, [(TOPIC, [(0, 0)])], max_wait_ms=60_000))
    await until(lambda: len(rig.nodes[1].parked_fetches) == 1)
    await rig.lead(0, 2, 1)
    _, (read,), _ = read_fetched((await client.answer(FETCH, 12))[1], 12)
    assert (read.error, read.records) == (0, content)
    assert rig.nodes[2].fetches[0].max_wait_ms < 60_000, "what is left of it"


async def test_a_parked_fetch_stays_where_it_is_when_other_partitions_move(rig: Rig) -> None:
    gateway = await rig.start()
    content = with_file(rig, 1000)
    rig.nodes[1].holding_fetches = True
    client = await rig.client(1)
    client.ask(FETCH, 12, fetch_body(12, [(TOPIC, [(0, 0)])], max_wait_ms=60_000))
    await until(lambda: len(rig.nodes[1].parked_fetches) == 1)
    await rig.lead(1, 2, 1)
    await gateway.wait_for_revision(rig.store.keyspace.revision, 5)
    rig.nodes[1].answer_fetch(rig.nodes[1].parked_fetches.pop())
    _, (read,), _ = read_fetched((await client.answer(FETCH, 12))[1], 12)
    assert (read.error, read.records) == (0, content)
    assert (len(rig.nodes[1].fetches), rig.nodes[1].cancelled) == (1, 0)


async def test_while_nobody_leads_a_fetch_waits_for_the_next_leader(rig: Rig) -> None:
    gateway = await rig.start()
    await rig.lead(0, -1, 1)
    await gateway.wait_for_revision(rig.store.keyspace.revision, 5)
    client = await rig.client(1)
    client.ask(FETCH, 16, fetch_body(16, [(TOPIC_ID, [(0, 0)])], max_wait_ms=60_000))
    await until(lambda: len(gateway.data_path.delayed_requests) == 1)
    await rig.lead(0, 2, 2)
    _, (partition_result,), _ = read_fetched((await client.answer(FETCH, 16))[1], 16)
    assert (partition_result.error, partition_result.leader, partition_result.leader_epoch) == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        2,
        2,
    )
    await rig.lead(0, -1, 3)
    await gateway.wait_for_revision(rig.store.keyspace.revision, 5)
    client.ask(FETCH, 16, fetch_body(16, [(TOPIC_ID, [(0, 0)])], max_wait_ms=50))
    _, (partition_result,), _ = read_fetched((await client.answer(FETCH, 16))[1], 16)
    assert (partition_result.error, partition_result.leader) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1), (
        "no longer than the client does"
    )
    client.ask(FETCH, 16, fetch_body(16, [(TOPIC_ID, [(0, 0)])], max_wait_ms=60_000))
    await until(lambda: len(gateway.data_path.delayed_requests) == 1)
    await client.close()
    await until(lambda: not gateway.data_path.delayed_requests)


async def test_only_consumers_that_name_a_rack_fetch_from_a_follower_in_the_isr(rig: Rig) -> None:
    gateway = await rig.start()
    content = with_file(rig, 1000)
    rig.nodes[2].file = rig.nodes[1].file
    await rig.lead(0, 1, 1, followers=(2,))
    await gateway.wait_for_revision(rig.store.keyspace.revision, 5)
    client = await rig.client(2)
    _, (read,) = await client.fetch(11, fetch_body(11, [(TOPIC, [(0, 0)])], rack="b"))
    assert (read.error, read.records) == (0, content)
    assert [(request.rack, request.as_follower) for request in rig.nodes[2].fetches] == [("b", True)]
    _, (refused,) = await client.fetch(11, fetch_body(11, [(TOPIC, [(0, 0)])]))
    assert refused.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    rig.nodes[2].holding_fetches = True
    client.ask(FETCH, 16, fetch_body(16, [(TOPIC_ID, [(0, 0)])], rack="b", max_wait_ms=60_000))
    await until(lambda: len(rig.nodes[2].parked_fetches) == 1)
    await rig.lead(0, 1, 1)  # outside the ISR, where it may be cut off
    _, (partition_result,), _ = read_fetched((await client.answer(FETCH, 16))[1], 16)
    assert (partition_result.error, partition_result.leader, partition_result.leader_epoch) == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        1,
        1,
    )


@pytest.mark.parametrize("version", range(11, 19))
async def test_every_version_that_names_racks_hears_of_the_preferred_read_replica(rig: Rig, version: int) -> None:
    await rig.start()
    with_file(rig, 10)
    rig.nodes[1].fetch_result = Fetched(0, 9, 9, 0, preferred_read_replica=2)
    client = await rig.client(1)
    for _ in range(3):  # including polls that match the template
        _, (partition_result,) = await client.fetch(version, fetch_body(version, [(name_of(version), [(0, 0)])], rack="b"))
        assert (
            partition_result.error,
            partition_result.preferred,
            partition_result.high_watermark,
            partition_result.records,
        ) == (0, 2, 9, b"")


@pytest.mark.parametrize("version", range(12, 19))
async def test_a_client_hears_where_its_log_diverges_from_the_leaders(rig: Rig, version: int) -> None:
    await rig.start()
    with_file(rig, 10)
    rig.nodes[1].fetch_result = Fetched(0, 9, 9, 0, diverging_epoch=3, diverging_end_offset=7)
    client = await rig.client(1)
    for _ in range(3):
        _, (partition_result,) = await client.fetch(version, fetch_body(version, [(name_of(version), [(0, 8)])]))
        assert (partition_result.error, partition_result.diverging, partition_result.records) == (0, (3, 7), b"")
