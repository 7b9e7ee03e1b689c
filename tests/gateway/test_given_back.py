"""A batch that a producer must send again, and those that it sent behind it before it knew.

librdkafka takes OUT_OF_ORDER_SEQUENCE_NUMBER of a batch that is not its oldest for a reason to begin a new epoch, in which it
sends everything unanswered once more: also what an earlier leader had stored already.
"""

from libs.wire.errors import ErrorCode
from services.gateway.core.given_back import MOST, PATIENCE_S, GivenBack, Producer
from tests.gateway.conftest import Rig, until
from tests.gateway.test_failover import ask, ask_in_turn, error_of, idempotent, plain

NOT_LEADER, OUT_OF_ORDER = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
PRODUCER = Producer((b"topic", 0), 7, 0)


async def test_a_batch_behind_one_that_was_given_back_is_given_back_too(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    node = rig.nodes[1]
    await ask_in_turn(client, node, *map(idempotent, range(2)))
    node.refuse_with = NOT_LEADER
    node.release(0)
    assert await error_of(client, 0) == NOT_LEADER
    node.refuse_with = OUT_OF_ORDER
    node.release(0)
    assert await error_of(client, 1) == NOT_LEADER
    node.refuse_with, node.holding = 0, False
    for number in range(2):
        ask(client, number, idempotent(number))
    assert [await error_of(client, number) for number in range(2)] == [0, 0]
    node.refuse_with = OUT_OF_ORDER
    ask(client, 3, idempotent(3))
    assert await error_of(client, 3) == OUT_OF_ORDER, "what it had to wait for came"


async def test_the_answer_to_an_earlier_batch_ends_no_wait(rig: Rig) -> None:
    """The first waits for its followers while the second is refused, at once, since there are too few: it is answered last."""
    await rig.start()
    client = await rig.client(1)
    node = rig.nodes[1]
    await ask_in_turn(client, node, *map(idempotent, range(3)))
    node.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    node.release(1)
    await until(lambda: rig.gateway is not None and bool(rig.gateway.data_path.appends.given_back))
    node.refuse_with = 0
    node.release(0)
    node.refuse_with = OUT_OF_ORDER
    node.release(0)
    assert [await error_of(client, number) for number in range(3)] == [0, ErrorCode.NOT_ENOUGH_REPLICAS, NOT_LEADER]


async def test_what_is_out_of_order_by_itself_says_so(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    rig.nodes[1].refuse_with = OUT_OF_ORDER
    ask(client, 5, idempotent(5))
    assert await error_of(client, 5) == OUT_OF_ORDER


async def test_a_batch_without_a_producer_id_is_nobodys_to_wait_for(rig: Rig) -> None:
    gateway = await rig.start(parked_bytes_max=1)
    client = await rig.client(1)
    await rig.lead(0, -1, 1)
    await gateway.wait_for_revision(rig.store.keyspace.revision, 5)
    ask(client, 0, plain(0))
    assert await error_of(client, 0) == NOT_LEADER
    assert not gateway.data_path.appends.given_back


def test_the_earliest_of_several_counts() -> None:
    given_back = GivenBack()
    given_back.add(PRODUCER, 4, 0.0)
    given_back.add(PRODUCER, 3, 0.0)
    given_back.add(PRODUCER, 9, 0.0)
    assert given_back.is_awaited_before(PRODUCER, 4, 1.0)
    assert not given_back.is_awaited_before(PRODUCER, 3, 1.0)


def test_the_wait_ends_with_the_latest_or_one_behind_it() -> None:
    for last in (9, 10):
        given_back = GivenBack()
        given_back.add(PRODUCER, 4, 0.0)
        given_back.add(PRODUCER, 9, 0.0)
        for sequence in (3, 4, 8):
            given_back.came(PRODUCER, sequence)
            assert given_back.is_awaited_before(PRODUCER, 11, 1.0), sequence
        given_back.came(PRODUCER, last)
        assert not given_back


def test_sequences_begin_anew_after_the_greatest() -> None:
    given_back = GivenBack()
    given_back.add(PRODUCER, 2**31 - 1, 0.0)
    given_back.add(PRODUCER, 0, 0.0)
    assert given_back.is_awaited_before(PRODUCER, 5, 1.0)
    given_back.came(PRODUCER, 2**31 - 1)
    assert given_back.is_awaited_before(PRODUCER, 5, 1.0), "0 is the latest"
    given_back.came(PRODUCER, 0)
    assert not given_back


def test_another_epoch_or_partition_waits_for_nothing() -> None:
    given_back = GivenBack()
    given_back.add(PRODUCER, 3, 0.0)
    assert not given_back.is_awaited_before(PRODUCER._replace(epoch=1), 4, 0.0)
    assert not given_back.is_awaited_before(PRODUCER._replace(key=(b"topic", 1)), 4, 0.0)


def test_a_producer_that_never_sends_it_again_learns_that_it_is_out_of_order() -> None:
    given_back = GivenBack()
    given_back.add(PRODUCER, 3, 10.0)
    assert given_back.is_awaited_before(PRODUCER, 4, 10.0 + PATIENCE_S)
    assert not given_back.is_awaited_before(PRODUCER, 4, 10.1 + PATIENCE_S)
    assert not given_back


def test_the_oldest_are_forgotten_beyond_the_bound() -> None:
    given_back = GivenBack()
    for producer_id in range(MOST + 1):
        given_back.add(PRODUCER._replace(producer_id=producer_id), 3, 0.0)
    assert not given_back.is_awaited_before(PRODUCER._replace(producer_id=0), 4, 0.0)
    assert given_back.is_awaited_before(PRODUCER._replace(producer_id=MOST), 4, 0.0)
