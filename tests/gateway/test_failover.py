"""Failovers: leaders die, restart and move, and clients see no more than a pause."""

import asyncio

from libs.cluster import keys
from libs.cluster.records import NodeRecord
from libs.cluster.store import Delete
from libs.wire.errors import ErrorCode
from tests.gateway.conftest import Rig
from tests.gateway.fake_node import FakeNode
from tests.gateway.kafka_client import PRODUCE, read_produced
from tests.gateway.produce_requests import ask, ask_in_turn, error_of, idempotent, plain
from tests.support.polling import until


async def restart(rig: Rig, node: FakeNode, epoch: int) -> None:
    node.incarnation += 1
    node.holding = False
    await node.start()
    await rig.register(node)
    await rig.lead(0, node.node_id, epoch)


async def test_batches_that_were_never_sent_wait_for_a_leader_in_order(rig: Rig) -> None:
    gateway = await rig.start()
    client = await rig.client(1)
    await rig.lead(0, -1, 1)
    await gateway.wait_for_revision(rig.store.keyspace.revision, 5)
    for number in range(5):
        ask(client, number, plain(number))
    await until(lambda: gateway.data_path.appends.parked.bytes == 5 * len(plain(0)))
    assert rig.nodes[1].stored == []
    await rig.lead(0, 2, 2)
    assert [await error_of(client, number) for number in range(5)] == [0] * 5
    assert rig.nodes[2].stored == [(0, plain(number)) for number in range(5)]
    assert {part.leader_epoch for append in rig.nodes[2].appends for part in append.partitions} == {2}
    assert gateway.data_path.appends.parked.bytes == 0


async def test_other_partitions_go_on_while_one_waits(rig: Rig) -> None:
    gateway = await rig.start()
    waiting, other = await rig.client(1), await rig.client(1)
    await rig.lead(0, -1, 1)
    await gateway.wait_for_revision(rig.store.keyspace.revision, 5)
    ask(waiting, 1, plain(1))
    await until(lambda: bool(gateway.data_path.appends.parked))
    ask(other, 2, plain(2), partition=1)
    assert await error_of(other, 2) == 0


async def test_batches_with_a_producer_id_are_sent_again_after_a_crash_in_order(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    node = rig.nodes[1]
    node.holding = True
    for number in range(3):
        ask(client, number, idempotent(number))
    await until(lambda: len(node.stored) == 3)
    await node.stop()
    ask(client, 3, idempotent(3))
    await restart(rig, node, 1)
    assert [await error_of(client, number) for number in range(4)] == [0] * 4
    assert [batch for _, batch in node.stored[3:]] == [idempotent(number) for number in range(4)]


async def test_batches_without_a_producer_id_are_not_sent_twice(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    node = rig.nodes[1]
    node.holding = True
    ask(client, 0, plain(0))
    await until(lambda: len(node.held) == 1)
    await node.stop()
    assert await error_of(client, 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await restart(rig, node, 1)
    ask(client, 1, plain(1))
    assert await error_of(client, 1) == 0
    assert [batch for _, batch in node.stored] == [plain(0), plain(1)]


async def test_nobody_waits_longer_than_half_of_the_requests_timeout(rig: Rig) -> None:
    gateway = await rig.start()
    client = await rig.client(1)
    await rig.lead(0, -1, 1)
    await gateway.wait_for_revision(rig.store.keyspace.revision, 5)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    ask(client, 1, plain(1), timeout_ms=400)
    ask(client, 2, plain(2), timeout_ms=60_000)
    assert await error_of(client, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await error_of(client, 2) == ErrorCode.NOT_LEADER_OR_FOLLOWER, "it would have been stored before the one it follows"
    assert 0.19 < loop.time() - begun < 4.9, "nor do later ones for it, whose own time is up after five seconds"


async def test_nobody_waits_longer_than_five_seconds(rig: Rig) -> None:
    gateway = await rig.start()
    client = await rig.client(1)
    await rig.lead(0, -1, 1)
    await gateway.wait_for_revision(rig.store.keyspace.revision, 5)
    ask(client, 1, plain(1), timeout_ms=60_000)
    await until(lambda: bool(gateway.data_path.appends.parked))
    until_when = gateway.data_path.appends.parked.next_deadline()
    assert until_when is not None
    assert until_when <= asyncio.get_running_loop().time() + 5


async def test_parked_batches_end_with_their_client(rig: Rig) -> None:
    gateway = await rig.start()
    client = await rig.client(1)
    await rig.lead(0, -1, 1)
    await gateway.wait_for_revision(rig.store.keyspace.revision, 5)
    ask(client, 1, plain(1))
    await until(lambda: bool(gateway.data_path.appends.parked))
    await client.close()
    await until(lambda: not gateway.data_path.appends.parked, 2.0)  # long before their deadline
    assert gateway.data_path.appends.parked.bytes == 0


async def test_parked_batches_have_a_budget_of_their_own(rig: Rig) -> None:
    gateway = await rig.start(parked_bytes_max=2 * len(plain(0)))
    client = await rig.client(1)
    await rig.lead(0, -1, 1)
    await gateway.wait_for_revision(rig.store.keyspace.revision, 5)
    others = [await rig.client(1) for _ in range(2)]
    for number, other in enumerate(others):
        ask(other, number, plain(number))
    await until(lambda: gateway.data_path.appends.parked.bytes == 2 * len(plain(0)))
    ask(client, 9, plain(9))
    assert await error_of(client, 9) == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_leader_that_does_not_know_yet_is_asked_again(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    node = rig.nodes[1]
    node.refuse_with = ErrorCode.NOT_LEADER_OR_FOLLOWER
    ask(client, 1, plain(1))
    await until(lambda: len(node.appends) > 2)
    node.refuse_with = 0
    assert await error_of(client, 1) == 0
    assert [batch for _, batch in node.stored] == [plain(1)]


async def test_batches_that_come_while_a_refused_one_waits_stay_behind_it(rig: Rig) -> None:
    gateway = await rig.start()
    client = await rig.client(1)
    node = rig.nodes[1]
    node.refuse_with = ErrorCode.NOT_LEADER_OR_FOLLOWER
    ask(client, 0, plain(0))
    await until(lambda: bool(gateway.data_path.appends.parked))
    node.refuse_with = 0
    for number in range(1, 4):
        ask(client, number, plain(number))
    assert [await error_of(client, number) for number in range(4)] == [0] * 4
    assert [batch for _, batch in node.stored] == [plain(number) for number in range(4)]


async def test_a_refusal_with_later_requests_in_flight_is_the_clients_to_handle(rig: Rig) -> None:
    """If the gateway sent the first batch again, it would come after the second."""
    await rig.start()
    client = await rig.client(1)
    node = rig.nodes[1]
    await ask_in_turn(client, node, *map(plain, range(2)))
    node.refuse_with = ErrorCode.NOT_LEADER_OR_FOLLOWER
    node.release(0)
    assert await error_of(client, 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    node.refuse_with = 0
    node.release(0)
    assert await error_of(client, 1) == 0


async def test_a_node_that_stops_cleanly_is_waited_for(rig: Rig) -> None:
    """BROKER_NOT_AVAILABLE, the error of its RPC server, is fatal to Java producers and consumers."""
    gateway = await rig.start()
    client = await rig.client(1)
    node = rig.nodes[1]
    node.begin_to_stop()
    ask(client, 0, plain(0))
    await until(lambda: gateway.data_path.appends.parked.bytes == len(plain(0)))
    assert node.stored == []
    await node.stop()
    await restart(rig, node, 1)
    assert await error_of(client, 0) == 0
    node.begin_to_stop()
    ask(client, 1, plain(1), timeout_ms=50)
    assert await error_of(client, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_silent_leaders_batches_leave_for_the_next_one_in_order_when_the_image_names_it(rig: Rig) -> None:
    """A stopped process keeps its connections, so only the image shows that it is gone."""
    gateway = await rig.start()
    client = await rig.client(1)
    rig.nodes[1].holding = True
    for number in range(3):
        ask(client, number, idempotent(number))
    ask(client, 3, idempotent(0), partition=1)
    await until(lambda: len(rig.nodes[1].stored) == 4)
    await rig.lead(0, 2, 1)
    assert [await error_of(client, number) for number in range(3)] == [0] * 3
    assert rig.nodes[2].stored == [(0, idempotent(number)) for number in range(3)]
    assert gateway.meters.resent_total == 3
    rig.nodes[1].release(0)  # of a request that was taken back
    while rig.nodes[1].held:
        rig.nodes[1].release(0)
    assert await error_of(client, 3) == 0, "it is still the leader of this one"


async def test_batches_of_a_silent_leader_stay_before_later_ones(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    rig.nodes[1].holding = True
    for number in range(3):
        ask(client, number, idempotent(number))
    await until(lambda: len(rig.nodes[1].stored) == 3)
    await rig.lead(0, -1, 1)
    for number in range(3, 5):
        ask(client, number, idempotent(number))
    await rig.lead(0, 2, 2)
    assert [await error_of(client, number) for number in range(5)] == [0] * 5
    assert rig.nodes[2].stored == [(0, idempotent(number)) for number in range(5)]


async def test_a_silent_leaders_batch_without_a_producer_id_is_answered_and_not_sent_twice(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    rig.nodes[1].holding = True
    ask(client, 0, plain(0))
    await until(lambda: len(rig.nodes[1].held) == 1)
    await rig.lead(0, 2, 1)
    assert await error_of(client, 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert rig.nodes[2].stored == []


async def test_a_replaced_leader_that_lives_may_still_say_that_it_stored(rig: Rig) -> None:
    gateway = await rig.start()
    client = await rig.client(1)
    rig.nodes[1].holding = True
    ask(client, 0, plain(0))
    await until(lambda: len(rig.nodes[1].held) == 1)
    await rig.lead(0, 2, 1)
    await gateway.wait_for_revision(rig.store.keyspace.revision, 5)
    rig.nodes[1].release(0)
    assert await error_of(client, 0) == 0


async def test_a_deposed_leaders_refusals_wait_for_the_image_and_leave_in_order(rig: Rig) -> None:
    """The deposed leader knows of the election before the gateway does. More requests to it would change nothing."""
    gateway = await rig.start()
    client = await rig.client(1)
    node = rig.nodes[1]
    node.refuse_with, node.hint = ErrorCode.NOT_LEADER_OR_FOLLOWER, (2, 5)
    await ask_in_turn(client, node, *map(idempotent, range(3)))
    while node.held:
        node.release(0)
    await until(lambda: gateway.data_path.appends.parked.bytes == 3 * len(idempotent(0)))
    sent_before = len(node.appends)
    await rig.lead(0, 2, 5)
    assert [await error_of(client, number) for number in range(3)] == [0] * 3
    assert rig.nodes[2].stored == [(0, idempotent(number)) for number in range(3)]
    assert len(node.appends) == sent_before


async def test_a_batch_in_a_deposed_leaders_log_is_not_sent_again_without_a_producer_id(rig: Rig) -> None:
    """The next leader may have the batch, and would store it twice."""
    await rig.start()
    client = await rig.client(1)
    node = rig.nodes[1]
    node.refuse_with = ErrorCode.NOT_LEADER_OR_FOLLOWER
    node.hint, node.in_log = (2, 5), True
    ask(client, 0, plain(0))
    assert await error_of(client, 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    ask(client, 1, idempotent(1))
    await until(lambda: len(node.appends) == 2)
    await rig.lead(0, 2, 5)
    assert await error_of(client, 1) == 0
    assert rig.nodes[2].stored == [(0, idempotent(1))]


async def test_too_few_in_sync_is_for_the_client_to_hear(rig: Rig) -> None:
    gateway = await rig.start()
    client = await rig.client(1)
    rig.nodes[1].refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    ask(client, 0, idempotent(0))
    assert await error_of(client, 0) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert not gateway.data_path.appends.parked


async def test_not_leader_answers_carry_the_new_leader_and_where_it_is(rig: Rig) -> None:
    gateway = await rig.start()
    client = await rig.client(1)
    node = rig.nodes[1]
    node.holding = True
    ask(client, 1, plain(1), version=10)
    await until(lambda: len(node.held) == 1)
    await rig.lead(0, 2, 4)
    await gateway.wait_for_revision(rig.store.keyspace.revision, 5)
    await node.stop()
    produced, endpoints = read_produced((await client.answer(PRODUCE, 10))[1], 10)
    assert (produced[0].error, produced[0].leader, produced[0].leader_epoch) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2, 4)
    assert endpoints == [(2, "127.0.0.1", rig.port_base + 2)]


async def test_a_new_storage_nodes_port_opens_and_stays_open_when_it_dies(rig: Rig) -> None:
    await rig.start()
    await rig.put(keys.node(5), NodeRecord(5))
    await until(lambda: rig.gateway is not None and 5 in rig.gateway.debug()["broker_ids"])  # type: ignore[operator]
    client = await rig.client(5)
    ask(client, 1, plain(1))
    assert await error_of(client, 1) == 0
    await rig.nodes[1].stop()
    await (await rig.client(1)).close()


async def test_a_lost_lease_is_not_a_death(rig: Rig) -> None:
    """A node that cannot reach the metadata store still leads its partitions, as the partition states say."""
    gateway = await rig.start()
    client = await rig.client(1)
    await rig.store.txn([], [Delete(keys.member("storage", 1))])
    await gateway.wait_for_revision(rig.store.keyspace.revision, 5)
    assert 1 not in gateway.image.members("storage")
    ask(client, 1, plain(1))
    assert await error_of(client, 1) == 0


async def test_an_outage_of_the_metadata_store_stops_nobody(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    rig.store.unavailable = True
    ask(client, 1, plain(1))
    assert await error_of(client, 1) == 0
    rig.store.unavailable = False
