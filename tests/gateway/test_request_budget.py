"""One budget for the requests of all clients: reading stops at it, and nobody can take it for long."""

import asyncio
import struct

from hypothesis import given
from hypothesis import strategies as st

from services.gateway.core.connection_timeouts import ConnectionTimeouts, TimeoutLimits
from services.gateway.core.request_budget import RequestBudget
from services.gateway.core.session import Session, SessionLimits, Turn
from services.gateway.service import Gateway
from tests.gateway.conftest import TOPIC, Rig
from tests.gateway.kafka_client import FETCH, METADATA, PRODUCE, RawClient, fetch_body, frame, produce_body
from tests.gateway.produce_requests import PRODUCE_ONE, serves
from tests.support.polling import until

MIB = 1 << 20
FRAME_MAX = 4 * MIB
BUDGET = 16 * MIB
"""2 MiB of it are the reserve, 256 KiB are little."""


class Client:
    def __init__(self, queued_bytes: int = 0) -> None:
        self.queued_bytes = queued_bytes


def budget() -> RequestBudget[Client]:
    return RequestBudget(BUDGET, FRAME_MAX)


def test_a_large_frame_gets_room_for_all_of_it_or_none() -> None:
    requests, first, second = budget(), Client(), Client()
    assert requests.ask(first, 10 * MIB)
    assert requests.ask(first, 10 * MIB), "the frame goes on arriving"
    assert requests.used == 10 * MIB
    assert not requests.ask(second, 5 * MIB)
    assert requests.used == 10 * MIB
    assert requests.admit() == []
    requests.completed(first)
    assert requests.admit() == [second]
    assert (requests.used, requests.waiting) == (5 * MIB, 0)


def test_large_requests_leave_the_reserve_to_small_ones() -> None:
    requests, large, larger, little = budget(), Client(), Client(), Client()
    assert requests.ask(large, 14 * MIB)
    assert not requests.ask(larger, MIB)
    assert requests.ask(little, MIB // 4)
    assert not requests.ask(Client(queued_bytes=MIB), MIB // 4), "its requests count too"


def test_a_holder_that_holds_less_by_now_gets_into_the_reserve() -> None:
    requests, large, other = budget(), Client(), Client(queued_bytes=MIB)
    assert requests.ask(large, 14 * MIB)
    assert not requests.ask(other, MIB // 4)
    assert not requests.ask_again(other)
    other.queued_bytes = 0
    assert requests.ask_again(other)
    assert requests.waiting == 0


def test_the_smallest_request_is_first_and_among_equals_the_oldest() -> None:
    requests, large = budget(), Client()
    assert requests.ask(large, 14 * MIB)
    waiting = [Client() for _ in range(4)]
    assert not any(requests.ask(holder, size * MIB) for holder, size in zip(waiting, (9, 4, 9, 1), strict=True))
    requests.withdraw(large)
    assert requests.admit() == [waiting[3], waiting[1], waiting[0]]
    requests.withdraw(waiting[3])
    assert requests.admit() == []
    requests.withdraw(waiting[0])
    assert requests.admit() == [waiting[2]]


def test_a_holder_that_asks_again_for_less_has_one_place() -> None:
    requests, large, other = budget(), Client(), Client()
    assert requests.ask(large, 14 * MIB)
    assert not requests.ask(other, 9 * MIB)
    assert not requests.ask(other, 5 * MIB)
    assert requests.waiting == 1
    requests.withdraw(large)
    assert requests.admit() == [other]
    assert (requests.used, requests.waiting, requests.admit()) == (5 * MIB, 0, [])


def test_the_queue_keeps_its_order_whoever_leaves_it() -> None:
    requests, large = budget(), Client()
    assert requests.ask(large, 14 * MIB)
    waiting = [Client() for _ in range(300)]
    for number, holder in enumerate(waiting):
        assert not requests.ask(holder, MIB + 1000 - number)
    for holder in waiting[:-10]:
        requests.withdraw(holder)
    assert requests.waiting == 10
    requests.withdraw(large)
    assert requests.admit() == waiting[:-11:-1]


def test_a_frame_beyond_the_setting_fits_beside_a_reserve() -> None:
    requests: RequestBudget[Client] = RequestBudget(MIB, 100 * MIB)
    requests.used = MIB // 8
    assert requests.ask(Client(), 100 * MIB)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, FRAME_MAX), st.sampled_from(["ask", "complete", "end"])), max_size=60)
)
def test_the_budget_is_never_exceeded_and_nobody_waits_for_nothing(steps: list[tuple[int, int, str]]) -> None:
    requests = budget()
    holders = [Client() for _ in range(6)]
    waiting: set[Client] = set()
    for number, size, act in steps:
        holder = holders[number]
        if act == "end":
            requests.withdraw(holder)
            waiting.discard(holder)
        elif holder in waiting:
            continue
        elif act == "ask":
            requests.completed(holder)
            if not requests.ask(holder, size):
                waiting.add(holder)
        else:
            requests.completed(holder)
        waiting -= set(requests.admit())
        assert requests.used == sum(map(requests.room_of, holders)) <= requests.bytes_max
        assert requests.waiting == len(waiting)
        assert not waiting or requests.used
    for holder in holders:
        requests.withdraw(holder)
    assert (requests.used, requests.waiting) == (0, 0)


def test_a_session_gives_back_what_its_requests_took() -> None:
    requests = budget()
    first: Session[Turn] = Session(SessionLimits(), requests)
    second: Session[Turn] = Session(SessionLimits(), requests)
    turns = [Turn(True, 100), Turn(True, 10), Turn(True, 1)]
    assert all(first.arrive(turn) for turn in turns[:2])
    assert second.arrive(turns[2])
    assert requests.used == 111
    first.answer(turns[1], b"")
    assert requests.used == 111, "its answer waits for the one in front"
    first.answer(turns[0], b"")
    assert requests.used == 1
    second.end()
    assert requests.used == 0


def test_only_what_makes_no_progress_is_overdue() -> None:
    timeouts = ConnectionTimeouts(TimeoutLimits(30.0, 30.0, 600.0, 2.0))
    never = float("inf")
    assert timeouts.overdue_since(0, 0.0, 0.0) == never
    assert timeouts.overdue_since(0, 15.0, 10.0) == 17.0
    assert timeouts.overdue_since(0, 0.0, 10.0) == 40.0
    timeouts.half_frame_since = 10.0
    assert timeouts.overdue_since(0, 0.0, 0.0) == 12.0
    assert timeouts.overdue_since(40 * MIB, 0.0, 0.0) == 22.0
    timeouts.no_room_since = 11.0
    assert timeouts.overdue_since(0, 0.0, 0.0) == never, "the rest of its frame is not read"


# --- the gateway ----------------------------------------------------------------------------------------------------------


async def start(rig: Rig, **changes: object) -> Gateway:
    limits = {"frame_bytes_max": FRAME_MAX, "queued_request_bytes_max": BUDGET, "connection_bytes_max": FRAME_MAX}
    return await rig.start(**(limits | {"crowded_s_max": 0.4, "drain_s_max": 0.2} | changes))


def large_frame(size: int) -> bytes:
    """Not what any API expects, but nobody looks at it before the request in front is answered."""
    return frame(METADATA, 9, 2, bytes(size))


LONG_POLL = frame(FETCH, 11, 1, fetch_body(11, [(TOPIC, [(0, 0)])], max_wait_ms=50_000))


def send(client: RawClient, data: bytes) -> "asyncio.Task[None]":
    """The client sends as much as the gateway reads."""

    async def run() -> None:
        client.send(data)
        try:
            await client.drain()
        except ConnectionError:
            pass

    return asyncio.create_task(run())


async def test_requests_behind_long_polls_stop_at_the_budget_and_are_ended_when_others_wait(rig: Rig) -> None:
    gateway = await start(rig)
    honest = await rig.client(1)
    assert await serves(honest)
    hostile = [await rig.client(1) for _ in range(12)]
    sending = [send(client, LONG_POLL + large_frame(FRAME_MAX - 100_000) + large_frame(FRAME_MAX - 1000)) for client in hostile]
    requests = gateway.meters.requests
    await until(lambda: requests.waiting > 0)
    async with asyncio.timeout(60):
        while rig.closed("queued-requests") < 12 - 3:  # the last three have room
            assert requests.used <= requests.bytes_max
            assert await serves(honest)
    assert await serves(honest)
    await asyncio.gather(*(client.close() for client in hostile), *sending)


async def test_frames_that_are_claimed_and_never_sent_give_way_to_an_honest_one(rig: Rig) -> None:
    gateway = await start(rig)
    hostile = [await rig.client(1) for _ in range(8)]
    for client in hostile:
        client.send(struct.pack(">i", FRAME_MAX - 1) + bytes(600_000))
    await until(lambda: gateway.meters.requests.waiting > 0)
    honest = await rig.client(1)
    produced = await honest.produce(9, produce_body(9, [(TOPIC, [(0, bytes(2 * MIB))])]))
    assert produced[0].error == 0
    assert rig.closed("queued-requests") > 0


async def test_honest_clients_that_send_more_than_the_budget_wait_and_none_is_closed(rig: Rig) -> None:
    gateway = await start(rig, crowded_s_max=30.0)
    clients = [await rig.client(1) for _ in range(10)]
    body = produce_body(9, [(TOPIC, [(0, bytes(3 * MIB))])])
    rig.nodes[1].holding = True
    sending = [send(client, frame(PRODUCE, 9, number, body) * 2) for client in clients for number in (1, 2)]
    requests = gateway.meters.requests
    await until(lambda: requests.waiting > 0 and len(rig.nodes[1].held) > 0)
    assert requests.used <= requests.bytes_max
    rig.nodes[1].holding = False
    while rig.nodes[1].held:
        rig.nodes[1].release(0)
    for client in clients:
        for _ in range(4):
            await client.answer(PRODUCE, 9)
    await asyncio.gather(*sending)
    assert gateway.meters.closed == {}
    assert (requests.used, requests.waiting) == (0, 0)


async def test_a_client_whose_requests_are_answered_is_read_on_from_the_reserve(rig: Rig) -> None:
    gateway = await start(rig, crowded_s_max=30.0)
    requests, node = gateway.meters.requests, rig.nodes[1]
    for size in (FRAME_MAX, FRAME_MAX, FRAME_MAX, 2 * MIB - 1000):
        (await rig.client(1)).send(struct.pack(">i", size - 4) + bytes(600_000))
    await until(lambda: requests.used == 14 * MIB - 1000)
    node.holding = True
    client = await rig.client(1)
    for _ in range(2):
        client.ask(PRODUCE, 9, produce_body(9, [(TOPIC, [(0, bytes(200_000))])]))
    await until(lambda: requests.waiting == 1 and len(node.held) == 2)
    node.release(0)
    await until(lambda: requests.waiting == 0)
    assert requests.used > requests.short_at, "all but the reserve is taken"
    client.ask(PRODUCE, 9, PRODUCE_ONE)
    await until(lambda: len(node.held) == 2)


async def test_a_client_that_leaves_gives_its_room_to_the_next(rig: Rig) -> None:
    gateway = await start(rig)
    leaving = [await rig.client(1) for _ in range(3)]
    for client in leaving:
        client.send(struct.pack(">i", FRAME_MAX - 1) + bytes(600_000))
    requests = gateway.meters.requests
    await until(lambda: requests.used > 11 * MIB)
    staying = await rig.client(1)
    staying.ask(PRODUCE, 9, produce_body(9, [(TOPIC, [(0, bytes(3 * MIB))])]))
    await until(lambda: requests.waiting == 1)
    await leaving[0].close()
    await staying.answer(PRODUCE, 9)
    assert requests.waiting == 0


async def test_a_long_poll_ends_in_time_whatever_its_client_asks_for(rig: Rig) -> None:
    """Requests behind it wait as long. It may repeat an earlier one, and then it is not parsed."""
    await start(rig, fetch_wait_ms_max=300)
    client = await rig.client(1)
    node = rig.nodes[1]
    node.file, node.holding_fetches = rig.directory / "segment", True
    node.file.write_bytes(bytes(100))
    for number in range(2):
        client.send(LONG_POLL)
        await until(lambda expected=number + 1: len(node.fetches) == expected)  # type: ignore[misc]
        node.answer_fetch(node.parked_fetches.pop())
        await client.answer(FETCH, 11)
    assert [fetch.max_wait_ms for fetch in node.fetches] == [300, 300]


async def test_the_budget_and_the_requests_that_wait_for_it_are_metrics(rig: Rig) -> None:
    await start(rig)
    for _ in range(4):
        (await rig.client(1)).send(struct.pack(">i", FRAME_MAX - 1) + bytes(600_000))
    await until(lambda: b"penstock_gateway_connections_waiting 1.0" in rig.metrics.render())
    assert b"penstock_gateway_queued_request_max_bytes 1.6777216e+07" in rig.metrics.render()
    assert b"penstock_gateway_queued_request_bytes 1.2582921e+07" in rig.metrics.render()


async def test_a_small_request_that_waits_takes_no_receive_chunk(rig: Rig) -> None:
    """The chunk is 512 KiB, and a thousand connections would keep one each."""
    gateway = await start(rig)
    clients = [await rig.client(1) for _ in range(4)]
    for client in clients:
        client.send(LONG_POLL + LONG_POLL)
    await until(lambda: len(rig.nodes[1].parked_fetches) == 4)
    await until(lambda: gateway.debug()["receive_chunk_bytes"] == 0)


async def test_a_wait_for_room_has_an_end(rig: Rig) -> None:
    await start(rig, crowded_s_max=30.0, half_frame_s_max=0.3)
    clients = [await rig.client(1) for _ in range(4)]
    for client in clients:
        client.send(struct.pack(">i", FRAME_MAX - 1) + bytes(600_000))
    await until(lambda: rig.closed("no-room") == 1)
    assert await serves(await rig.client(1))
