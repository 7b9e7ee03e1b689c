"""Returned batches: a batch that a producer must send again, and the batches that it had sent behind it.

For OUT_OF_ORDER_SEQUENCE_NUMBER of a batch that is not its oldest, librdkafka begins a new epoch. There it sends all unanswered
batches again, even those that an earlier leader had stored.
"""

import pytest

from libs.cluster import keys
from libs.cluster.records import Topic
from libs.wire.errors import ErrorCode
from services.gateway.core.returned_batches import CROSSING_S, PRODUCERS_MAX, TIMEOUT_S, Producer, ReturnedBatches
from tests.gateway.conftest import TOPIC, TOPIC_ID, Rig
from tests.gateway.kafka_client import PRODUCE, RawClient, produce_body
from tests.gateway.produce_requests import ask, ask_in_turn, error_of, idempotent, plain
from tests.support.polling import until

PRODUCER = Producer(("topic", 0), 7, 0)


async def test_a_batch_behind_a_returned_one_is_returned_too(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    node = rig.nodes[1]
    await ask_in_turn(client, node, *map(idempotent, range(2)))
    node.refuse_with = ErrorCode.NOT_LEADER_OR_FOLLOWER
    node.release(0)
    assert await error_of(client, 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    node.refuse_with = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    node.release(0)
    assert await error_of(client, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    node.refuse_with, node.holding = 0, False
    for number in range(2):
        ask(client, number, idempotent(number))
    assert [await error_of(client, number) for number in range(2)] == [0, 0]
    node.refuse_with = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    ask(client, 3, idempotent(3))
    assert await error_of(client, 3) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "what it had to wait for came"


async def test_the_answer_to_an_earlier_batch_ends_no_wait(rig: Rig) -> None:
    """The first batch waits for its followers. The second is refused at once, since there are too few. So the first is answered
    last."""
    await rig.start()
    client = await rig.client(1)
    node = rig.nodes[1]
    await ask_in_turn(client, node, *map(idempotent, range(3)))
    node.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    node.release(1)
    await until(lambda: rig.gateway is not None and bool(rig.gateway.data_path.appends.returned_batches))
    node.refuse_with = 0
    node.release(0)
    node.refuse_with = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    node.release(0)
    assert [await error_of(client, number) for number in range(3)] == [
        0,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ]


async def refuse_the_first_of_two(rig: Rig, client: RawClient, error: ErrorCode) -> None:
    """Node 1 still has the second."""
    node = rig.nodes[1]
    await ask_in_turn(client, node, *map(idempotent, range(2)))
    node.refuse_with = error
    node.release(0)
    assert await error_of(client, 0) == error


async def test_a_batch_that_is_taken_back_from_a_former_leader_does_not_overtake_a_returned_one(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    leader = rig.nodes[2]
    await refuse_the_first_of_two(rig, client, ErrorCode.NOT_ENOUGH_REPLICAS)
    await rig.lead(0, 2, 1)
    assert await error_of(client, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not leader.appends
    for number in range(3):
        ask(client, number, idempotent(number))
    assert [await error_of(client, number) for number in range(3)] == [0, 0, 0]


async def test_a_batch_that_waits_for_a_leader_does_not_overtake_a_returned_one_that_came_again(rig: Rig) -> None:
    gateway = await rig.start()
    client = await rig.client(1)
    leader = rig.nodes[2]
    await refuse_the_first_of_two(rig, client, ErrorCode.NOT_ENOUGH_REPLICAS)
    await rig.lead(0, -1, 1)
    parked = gateway.data_path.appends.parked
    await until(lambda: bool(parked))
    bytes_of_one = parked.bytes
    ask(client, 0, idempotent(0))
    await until(lambda: parked.bytes > bytes_of_one)
    await rig.lead(0, 2, 2)
    assert await error_of(client, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await error_of(client, 0) == 0
    assert len(leader.appends) == 1


async def test_a_batch_that_never_comes_again_holds_up_no_later_one(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    node = rig.nodes[1]
    node.refuse_with = ErrorCode.INVALID_RECORD
    ask(client, 0, idempotent(0))
    assert await error_of(client, 0) == ErrorCode.INVALID_RECORD
    node.refuse_with = 0
    ask(client, 1, idempotent(1))
    assert await error_of(client, 1) == 0


async def test_a_batch_that_only_a_failed_leader_had_is_not_overtaken(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    leader = rig.nodes[2]
    rig.nodes[1].in_log = True
    await refuse_the_first_of_two(rig, client, ErrorCode.KAFKA_STORAGE_ERROR)
    await rig.lead(0, 2, 1)
    assert await error_of(client, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not leader.appends


@pytest.mark.parametrize("topic", [TOPIC, "new"])
async def test_a_batch_for_a_partition_that_is_new_here_is_not_overtaken(rig: Rig, topic: str) -> None:
    gateway = await rig.start()
    client = await rig.client(1)
    topic_id = TOPIC_ID if topic == TOPIC else bytes(range(16))

    def send(number: int) -> None:
        client.ask(PRODUCE, 9, produce_body(9, [(topic, [(3, idempotent(number))])], timeout_ms=20_000), correlation_id=number)

    send(0)
    assert await error_of(client, 0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await rig.put(keys.topic(topic), Topic(topic, topic_id.hex(), 4))
    await rig.lead(3, 1, topic_id=topic_id)
    await gateway.wait_for_revision(rig.store.keyspace.revision, 5)
    send(1)
    assert await error_of(client, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    for number in range(2):
        send(number)
        assert await error_of(client, number) == 0


async def test_a_batch_that_was_on_its_way_when_an_earlier_one_was_returned_is_returned_too(rig: Rig) -> None:
    gateway = await rig.start()
    client = await rig.client(1)
    await rig.lead(0, -1, 1)
    await gateway.wait_for_revision(rig.store.keyspace.revision, 5)
    ask(client, 0, idempotent(0), timeout_ms=100)
    assert await error_of(client, 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await rig.lead(0, 1, 2)
    await gateway.wait_for_revision(rig.store.keyspace.revision, 5)
    ask(client, 1, idempotent(1))
    assert await error_of(client, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not rig.nodes[1].appends
    for number in range(2):
        ask(client, number, idempotent(number))
    assert [await error_of(client, number) for number in range(2)] == [0, 0]


async def test_a_batch_that_is_out_of_order_by_itself_says_so(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    rig.nodes[1].refuse_with = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    ask(client, 5, idempotent(5))
    assert await error_of(client, 5) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_a_batch_without_a_producer_id_is_nobodys_to_wait_for(rig: Rig) -> None:
    gateway = await rig.start(parked_bytes_max=1)
    client = await rig.client(1)
    await rig.lead(0, -1, 1)
    await gateway.wait_for_revision(rig.store.keyspace.revision, 5)
    ask(client, 0, plain(0))
    assert await error_of(client, 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not gateway.data_path.appends.returned_batches


def test_the_earliest_of_several_counts() -> None:
    returned = ReturnedBatches()
    returned.add(PRODUCER, 4, 0, 0.0)
    returned.add(PRODUCER, 3, 0, 0.0)
    returned.add(PRODUCER, 9, 0, 0.0)
    assert returned.has_earlier(PRODUCER, 4, 1.0)
    assert not returned.has_earlier(PRODUCER, 3, 1.0)


def test_no_batch_overtakes_a_returned_one_until_that_is_sent_again() -> None:
    returned = ReturnedBatches()
    returned.add(PRODUCER, 4, 2, 0.0)
    assert returned.overtakes(PRODUCER, 5, 1, 1.0)
    assert not returned.overtakes(PRODUCER, 4, 3, 1.0), "the returned one itself"
    assert returned.overtakes(PRODUCER, 5, 2, 1.0), "it was sent before that"
    assert not returned.overtakes(PRODUCER, 5, 4, 1.0), "it was sent behind that"
    assert returned.has_earlier(PRODUCER, 5, 1.0), "until it is stored"
    returned.add(PRODUCER, 4, 5, 1.0)
    assert returned.overtakes(PRODUCER, 5, 4, 1.0), "returned once more"
    assert not returned.overtakes(PRODUCER, 5, 4, 1.1 + TIMEOUT_S), "given up"


def test_what_overtakes_a_returned_batch_was_sent_before_its_client_knew() -> None:
    returned = ReturnedBatches()
    returned.add(PRODUCER, 4, 2, 0.0)
    for order, now, overtakes in ((2, 0.0, True), (3, CROSSING_S + 0.1, False), (1, CROSSING_S + 0.1, True)):
        assert returned.overtakes(PRODUCER, 9, order, now) == overtakes
    assert returned.has_earlier(PRODUCER, 12, CROSSING_S + TIMEOUT_S), "what was returned since is to come again"


def test_where_the_leader_knows_the_producer_its_log_tells_what_is_out_of_sequence() -> None:
    returned = ReturnedBatches()
    for sequence in (4, 5):
        returned.add(PRODUCER, sequence, 1, 0.0)
    returned.stored(PRODUCER, 4)
    returned.add(PRODUCER, 5, 1, 0.0)
    assert not returned.overtakes(PRODUCER, 6, 0, 0.0)
    assert returned.has_earlier(PRODUCER, 6, 0.0)


def test_a_batch_that_was_out_of_order_behind_a_returned_one_is_returned_too() -> None:
    returned = ReturnedBatches()
    returned.add(PRODUCER, 4, 1, 0.0)
    returned.add_behind(PRODUCER, 6)
    returned.stored(PRODUCER, 4)
    assert returned.has_earlier(PRODUCER, 7, 0.0), "6 is to come again"
    assert not returned.has_earlier(PRODUCER, 7, TIMEOUT_S + 0.1), "the first may be given up"
    returned.add(PRODUCER, 6, 1, TIMEOUT_S + 0.1)
    returned.stored(PRODUCER, 6)
    assert not returned


def test_an_error_that_is_final_holds_nothing_up() -> None:
    returned = ReturnedBatches()
    returned.add(PRODUCER, 4, 1, 0.0, comes_again=False)
    assert not returned.overtakes(PRODUCER, 5, 0, 0.0)
    returned.add(PRODUCER, 5, 1, 0.0)
    assert returned.overtakes(PRODUCER, 6, 0, 0.0)


def test_the_wait_ends_with_the_latest_or_one_behind_it() -> None:
    for last in (9, 10):
        returned = ReturnedBatches()
        returned.add(PRODUCER, 4, 0, 0.0)
        returned.add(PRODUCER, 9, 0, 0.0)
        for sequence in (3, 4, 8):
            returned.stored(PRODUCER, sequence)
            assert returned.has_earlier(PRODUCER, 11, 1.0), sequence
        returned.stored(PRODUCER, last)
        assert not returned


def test_sequences_begin_anew_after_the_greatest() -> None:
    returned = ReturnedBatches()
    returned.add(PRODUCER, 2**31 - 1, 0, 0.0)
    returned.add(PRODUCER, 0, 0, 0.0)
    assert returned.has_earlier(PRODUCER, 5, 1.0)
    returned.stored(PRODUCER, 2**31 - 1)
    assert returned.has_earlier(PRODUCER, 5, 1.0), "0 is the latest"
    returned.stored(PRODUCER, 0)
    assert not returned


def test_another_epoch_or_partition_waits_for_nothing() -> None:
    returned = ReturnedBatches()
    returned.add(PRODUCER, 3, 0, 0.0)
    assert not returned.has_earlier(PRODUCER._replace(epoch=1), 4, 0.0)
    assert not returned.has_earlier(PRODUCER._replace(partition=("topic", 1)), 4, 0.0)


def test_a_producer_that_never_sends_it_again_learns_that_it_is_out_of_order() -> None:
    returned = ReturnedBatches()
    returned.add(PRODUCER, 3, 0, 10.0)
    assert returned.has_earlier(PRODUCER, 4, 10.0 + TIMEOUT_S)
    returned.add(PRODUCER._replace(producer_id=8), 3, 0, 10.1 + TIMEOUT_S)
    assert not returned.has_earlier(PRODUCER, 4, 10.1 + TIMEOUT_S)
    assert not returned.has_earlier(PRODUCER._replace(producer_id=8), 4, 11.0 + 2 * TIMEOUT_S)
    assert not returned, "whoever is gone leaves nothing"


def test_the_oldest_are_forgotten_beyond_the_bound() -> None:
    returned = ReturnedBatches()
    for producer_id in range(PRODUCERS_MAX + 1):
        returned.add(PRODUCER._replace(producer_id=producer_id), 3, 0, 0.0)
    assert not returned.has_earlier(PRODUCER._replace(producer_id=0), 4, 0.0)
    assert returned.has_earlier(PRODUCER._replace(producer_id=PRODUCERS_MAX), 4, 0.0)
