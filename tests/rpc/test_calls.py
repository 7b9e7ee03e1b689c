"""Calls between a client and a server, over real sockets: order, coalescing, ends of all kinds."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import pytest

from libs.rpc.client.rpc_client import Response
from libs.rpc.contracts.storage import OPEN_FILE, Appended, AppendReply, OpenFile
from libs.rpc.messages.envelope import Hello
from libs.rpc.messages.errors import ContractError, DeadlineExceeded, Disconnected, Overloaded, RpcError, RpcFailure, ShuttingDown
from libs.rpc.messages.schema import unpack
from libs.rpc.server.rpc_server import Call
from tests.rpc.conftest import Network, is_linked
from tests.support.polling import until


def echo(call: Call) -> None:
    call.reply(call.body, [bytes(call.payload)])


async def test_a_call_brings_its_body_and_payload_back(network: Network, address: str) -> None:
    _, at = await network.serve(address, {"echo": echo})
    client = await network.client(at)
    response = await client.call("echo", [1, "two", b"three"], [b"pay", b"load"], timeout_s=60)
    assert (response.body, bytes(response.payload)) == ([1, "two", b"three"], b"payload")
    assert client.outstanding == 0


async def test_contracts_travel_both_ways(network: Network, address: str) -> None:
    requests: list[OpenFile] = []

    def accept(call: Call) -> None:
        requests.append(unpack(OpenFile, call.body))
        call.reply(AppendReply((Appended(0, 5),)))

    _, at = await network.serve(address, {OPEN_FILE: accept})
    client = await network.client(at)
    response = await client.call(OPEN_FILE, OpenFile(9), timeout_s=60)
    assert unpack(AppendReply, response.body) == AppendReply((Appended(0, 5),))
    assert requests == [OpenFile(9)]


async def test_calls_are_accepted_in_the_order_in_which_they_were_made_even_before_connecting(
    network: Network, address: str
) -> None:
    seen: list[object] = []

    def accept(call: Call) -> None:
        seen.append(call.body[0])
        call.reply([])

    _, at = await network.serve(address, {"n": accept})
    client = await network.client(at, ready=False)
    futures = [client.call("n", [number], [bytes(number * 10)], timeout_s=60) for number in range(300)]
    await asyncio.wait_for(futures[0], 60)
    futures += [client.call("n", [number], timeout_s=60) for number in range(300, 400)]
    await asyncio.gather(*futures)
    assert seen == list(range(400))


async def test_many_frames_of_one_read_are_answered_with_one_system_call(network: Network, address: str) -> None:
    turns: list[int] = []
    waiting: list[Call] = []

    def end_of_turn() -> None:
        turns.append(len(waiting))
        for call in waiting:
            call.reply([call.request_id], [b"answer"])
        waiting.clear()

    server, at = await network.serve(address, {"n": waiting.append}, on_turn_end=end_of_turn)
    client = await network.client(at)
    (connection,) = server.open_connections
    ours: Any = client.connection.stream  # type: ignore[union-attr]
    theirs: Any = connection._stream
    await client.call("n", [], timeout_s=60)
    before = ours.sends, theirs.receives, theirs.sends, ours.receives
    await asyncio.gather(*(client.call("n", [], [b"x" * 100], timeout_s=60) for _ in range(20)))
    after = ours.sends, theirs.receives, theirs.sends, ours.receives
    assert [now - then for now, then in zip(after, before, strict=True)] == [0 if is_linked(at) else 1] * 4
    assert turns[-1] == 20


async def test_a_server_may_take_no_more_than_so_many_frames_in_one_turn(network: Network, address: str) -> None:
    turns: list[list[int]] = []
    waiting: list[Call] = []

    def end_of_turn() -> None:
        turns.append([call.body[0] for call in waiting])  # type: ignore[misc]
        for call in waiting:
            call.reply([call.body[0]])
        waiting.clear()

    _, at = await network.serve(address, {"n": waiting.append}, on_turn_end=end_of_turn, frames_per_turn=8)
    client = await network.client(at)
    replies: list[object] = []

    async def ask(number: int) -> None:
        replies.extend((await client.call("n", [number], timeout_s=60)).body)

    for count in (20, 16, 8, 7):
        turns.clear()
        replies.clear()
        await asyncio.gather(*(ask(number) for number in range(count)))
        assert replies == list(range(count))
        assert [number for turn in turns for number in turn] == replies
        assert max(map(len, turns)) == min(count, 8)


async def test_frames_that_wait_for_their_turn_go_with_their_connection(network: Network, address: str) -> None:
    accepted: list[object] = []

    def accept(call: Call) -> None:
        accepted.append(call.body[0])
        (connection,) = server.open_connections
        connection.close()

    server, at = await network.serve(address, {"n": accept}, frames_per_turn=1)
    client = await network.client(at)
    calls = [asyncio.ensure_future(client.call("n", [number], timeout_s=60)) for number in range(10)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert accepted == [0]
    assert all(isinstance(outcome, RpcFailure) for outcome in outcomes)


async def test_more_buffers_than_one_system_call_takes_arrive_all_the_same(network: Network, address: str) -> None:
    def accept(call: Call) -> None:
        call.reply([], [bytes([n % 256]) for n in range(5000)])

    _, at = await network.serve(address, {"many": accept})
    client = await network.client(at)
    response = await client.call("many", [], [b"%d," % n for n in range(3000)], timeout_s=60)
    assert bytes(response.payload) == bytes(n % 256 for n in range(5000))


async def test_large_payloads_go_both_ways_at_once(network: Network, address: str) -> None:
    _, at = await network.serve(address, {"echo": echo})
    client = await network.client(at)
    payloads = [bytes([number]) * (1 << 20) + b"end" for number in range(12)]
    responses = await asyncio.gather(*(client.call("echo", [], [payload], timeout_s=60) for payload in payloads))
    assert [bytes(response.payload) for response in responses] == payloads


async def test_the_callback_form_is_called_once_for_every_request(network: Network, address: str) -> None:
    _, at = await network.serve(address, {"echo": echo})
    client = await network.client(at)
    got: list[object] = []
    for number in range(5):
        client.send("echo", [number], (), lambda r: got.append(r.body if isinstance(r, Response) else r), timeout_s=60)
    assert got == []
    await until(lambda: len(got) == 5)
    assert got == [[0], [1], [2], [3], [4]]


async def test_a_callback_that_fails_harms_no_other(network: Network, address: str, caplog: pytest.LogCaptureFixture) -> None:
    def fail(outcome: object) -> None:
        raise ZeroDivisionError

    _, at = await network.serve(address, {"echo": echo})
    client = await network.client(at)
    client.send("echo", [], (), fail, timeout_s=60)
    assert (await client.call("echo", [2], timeout_s=60)).body == [2]
    assert "on_reply failed" in caplog.text


async def test_finish_runs_as_a_task_and_may_answer_later(network: Network, address: str) -> None:
    gate = asyncio.Event()

    async def finish(call: Call) -> None:
        await gate.wait()
        call.reply(["late"])

    def accept(call: Call) -> Coroutine[Any, Any, None]:
        return finish(call)

    _, at = await network.serve(address, {"slow": accept, "echo": echo})
    client = await network.client(at)
    slow = client.call("slow", [], timeout_s=60)
    assert (await client.call("echo", ["quick"], timeout_s=60)).body == ["quick"]
    assert not slow.done()
    gate.set()
    assert (await slow).body == ["late"]


def raising(error: Exception, when: str) -> Any:
    async def finish(call: Call) -> None:
        raise error

    def accept(call: Call) -> Coroutine[Any, Any, None]:
        if when == "accept":
            raise error
        return finish(call)

    return accept


@pytest.mark.parametrize("when", ["accept", "finish"])
@pytest.mark.parametrize(
    ("error", "code"), [(RpcError(41, "not the controller"), 41), (ContractError("bad"), 42), (KeyError("bug"), -1)]
)
async def test_an_exception_of_a_handler_is_an_error_of_its_call_only(
    network: Network, short_dir: str, when: str, error: Exception, code: int
) -> None:
    _, at = await network.serve(f"unix:{short_dir}/s", {"bad": raising(error, when), "echo": echo})
    client = await network.client(at)
    with pytest.raises(RpcError) as raised:
        await client.call("bad", [], timeout_s=60)
    assert raised.value.code == code
    assert (await client.call("echo", [1], timeout_s=60)).body == [1]


async def test_a_method_that_the_server_does_not_have_is_refused(network: Network, address: str) -> None:
    _, at = await network.serve(address, {})
    client = await network.client(at)
    with pytest.raises(RpcError) as raised:
        await client.call("new.method", [], timeout_s=60)
    assert raised.value.code == 35


async def test_an_answer_that_does_not_come_in_time_cancels_the_work(network: Network, address: str) -> None:
    calls: list[Call] = []
    cancelled: list[str] = []

    def accept(call: Call) -> None:
        calls.append(call)
        call.on_cancel(lambda: cancelled.append("told"))

    _, at = await network.serve(address, {"never": accept, "echo": echo})
    client = await network.client(at)
    with pytest.raises(DeadlineExceeded) as raised:
        await client.call("never", [], timeout_s=0.05)
    assert raised.value.sent
    await until(lambda: cancelled == ["told"])
    assert calls[0].cancelled
    calls[0].reply(["too late"])  # dropped quietly
    assert (await client.call("echo", [1], timeout_s=60)).body == [1]
    assert client.outstanding == 0


async def test_each_call_keeps_its_own_deadline(network: Network, address: str) -> None:
    _, at = await network.serve(address, {"never": lambda call: None})
    client = await network.client(at)
    loop = asyncio.get_running_loop()
    start = loop.time()
    ends: dict[float, float] = {}
    for timeout_s in (0.3, 0.05, 5.0, 0.15):
        client.send("never", [], (), lambda _, t=timeout_s: ends.update({t: loop.time() - start}), timeout_s=timeout_s)  # type: ignore[misc]
    await until(lambda: len(ends) == 3)
    assert list(ends) == [0.05, 0.15, 0.3]
    assert all(end >= timeout_s for timeout_s, end in ends.items())


async def test_cancelling_the_future_cancels_the_work(network: Network, address: str) -> None:
    cancelled: list[Call] = []
    _, at = await network.serve(address, {"never": lambda call: call.on_cancel(lambda: cancelled.append(call))})
    client = await network.client(at)
    waiting = asyncio.create_task(asyncio.wait_for(client.call("never", [], timeout_s=60), 60))
    await until(lambda: client.outstanding > 0)
    await asyncio.sleep(0.02)
    waiting.cancel()
    await until(lambda: len(cancelled) == 1)
    assert client.outstanding == 0


async def test_the_work_of_a_caller_that_went_away_is_cancelled(network: Network, address: str) -> None:
    cancelled: list[int] = []
    server, at = await network.serve(address, {"never": lambda call: call.on_cancel(lambda: cancelled.append(1))})
    client = await network.client(at)
    futures = [client.call("never", [], timeout_s=60) for _ in range(3)]
    await asyncio.sleep(0.02)
    await client.close()
    for future in futures:
        with pytest.raises(Disconnected):
            await future
    await until(lambda: cancelled == [1, 1, 1])
    await until(lambda: server.connections == 0)


async def test_a_oneway_gets_there_and_needs_no_answer(network: Network, address: str) -> None:
    seen: list[object] = []

    def accept(call: Call) -> None:
        seen.append(call.body)
        call.reply(["ignored"])

    _, at = await network.serve(address, {"progress": accept, "echo": echo})
    client = await network.client(at)
    assert client.oneway("progress", [5])
    await client.call("echo", [], timeout_s=60)
    assert seen == [[5]]


async def test_a_oneway_without_a_connection_says_that_it_was_not_sent(network: Network, short_dir: str) -> None:
    client = await network.client(f"unix:{short_dir}/nobody", ready=False)
    assert not client.oneway("progress", [5])


async def test_the_error_of_a_call_that_was_never_sent_says_so(network: Network, short_dir: str) -> None:
    client = await network.client(f"unix:{short_dir}/nobody", ready=False)
    with pytest.raises(Disconnected) as raised:
        await client.call("echo", [], timeout_s=60)
    assert not raised.value.sent


async def test_a_call_made_on_hearing_that_connecting_failed_starts_the_next_attempt(network: Network, short_dir: str) -> None:
    client = await network.client(f"unix:{short_dir}/nobody", ready=False)
    outcomes: list[object] = []

    def again(outcome: object) -> None:
        outcomes.append(outcome)
        if len(outcomes) < 4:
            client.send("echo", [], (), again, timeout_s=60)

    client.send("echo", [], (), again, timeout_s=60)
    await until(lambda: len(outcomes) == 4)
    assert all(isinstance(outcome, Disconnected) for outcome in outcomes)


async def test_the_error_of_a_call_that_was_sent_and_lost_says_so(network: Network, address: str) -> None:
    accepted: list[Call] = []
    _, at = await network.serve(address, {"never": accepted.append})
    client = await network.client(at)
    future = client.call("never", [], timeout_s=60)
    await until(lambda: bool(accepted))
    late = client.call("never", [], timeout_s=60)  # queued in this very turn, not flushed
    client.connection.stream.abort(ConnectionResetError("pulled"))  # type: ignore[union-attr]
    with pytest.raises(Disconnected) as raised:
        await future
    assert raised.value.sent
    with pytest.raises(Disconnected) as raised:
        await late
    assert raised.value.sent is is_linked(at), "what goes by a link is there at the end of the turn"
    assert len(accepted) == 1 + is_linked(at)


async def test_the_client_comes_back_by_itself_when_the_server_does(network: Network, short_dir: str) -> None:
    at = f"unix:{short_dir}/s"
    first, _ = await network.serve(at, {"echo": echo})
    client = await network.client(at)
    await first.close(0.1)
    await until(lambda: not client.connected)
    with pytest.raises(Disconnected):
        await client.call("echo", [], timeout_s=60)
    with pytest.raises(DeadlineExceeded):
        await client.ready(0.05)
    await network.serve(at, {"echo": echo})
    await client.ready(5)
    assert (await client.call("echo", [1], timeout_s=60)).body == [1]


async def test_a_call_after_close_is_refused(network: Network, address: str) -> None:
    _, at = await network.serve(address, {"echo": echo})
    client = await network.client(at)
    await client.close()
    with pytest.raises(Disconnected) as raised:
        await client.call("echo", [], timeout_s=60)
    assert not raised.value.sent


async def test_too_many_outstanding_bytes_are_refused_at_once(network: Network, address: str) -> None:
    waiting: list[Call] = []
    _, at = await network.serve(address, {"wait": waiting.append})
    client = await network.client(at, max_outstanding=10_000)
    futures = [client.call("wait", [], [bytes(4000)], timeout_s=60) for _ in range(2)]
    with pytest.raises(Overloaded):
        client.call("wait", [], [bytes(4000)], timeout_s=60)
    await until(lambda: len(waiting) == 2)
    for call in waiting:
        call.reply([])
    await asyncio.gather(*futures)
    futures = [client.call("wait", [], [bytes(4000)], timeout_s=60)]
    await until(lambda: len(waiting) == 3)
    waiting[2].reply([])
    await futures[0]


async def test_a_server_reads_no_more_than_its_budget_of_requests_without_an_answer(network: Network, address: str) -> None:
    waiting: list[Call] = []
    _, at = await network.serve(address, {"wait": waiting.append}, max_outstanding=1 << 20)
    client = await network.client(at)
    futures = [client.call("wait", [number], [bytes(100_000)], timeout_s=60) for number in range(60)]
    await until(lambda: len(waiting) >= 10)
    await asyncio.sleep(0.05)
    assert len(waiting) < 20
    answered = 0
    while answered < 60:
        await until(lambda: len(waiting) > answered)  # noqa: B023
        while answered < len(waiting):
            waiting[answered].reply([])
            answered += 1
    await asyncio.gather(*futures)
    assert [call.body[0] for call in waiting] == list(range(60))


async def test_the_connections_of_a_server_share_one_budget_of_requests_without_an_answer(network: Network, address: str) -> None:
    """What is small is read in any case, and whoever was not read gets its turn."""
    waiting: list[Call] = []
    server, at = await network.serve(
        address, {"wait": waiting.append, "echo": echo}, max_outstanding=4 << 20, max_outstanding_in_all=8 << 20
    )
    clients = [await network.client(at) for _ in range(8)]
    futures = [client.call("wait", [], [bytes(500_000)], timeout_s=60) for client in clients for _ in range(8)]
    other = await network.client(at)
    await until(lambda: server.outstanding > 6 << 20)
    for _ in range(20):
        assert (await other.call("echo", [], timeout_s=60)).body == []
        assert server.outstanding <= (8 << 20) + len(clients) * (2 << 20), "a share of 1 MiB each, and what one read brings"
    answered = 0
    while answered < len(futures):
        await until(lambda: len(waiting) > answered)  # noqa: B023
        while answered < len(waiting):
            waiting[answered].reply([])
            answered += 1
    await asyncio.gather(*futures)
    assert server.outstanding == 0


async def test_requests_of_a_lost_connection_count_no_more(network: Network, address: str) -> None:
    waiting: list[Call] = []
    server, at = await network.serve(address, {"wait": waiting.append})
    client = await network.client(at)
    lost, cancelled = (client.call("wait", [], [bytes(500_000)], timeout_s=60) for _ in range(2))
    await until(lambda: len(waiting) == 2)
    assert server.outstanding > 1_000_000
    cancelled.cancel()
    await until(lambda: 500_000 < server.outstanding < 600_000)
    await client.close()
    with pytest.raises(Disconnected):
        await lost
    await until(lambda: server.outstanding == 0)
    waiting[0].reply([])
    assert server.outstanding == 0


async def test_closing_lets_accepted_calls_be_answered_and_refuses_new_ones(network: Network, address: str) -> None:
    waiting: list[Call] = []
    server, at = await network.serve(address, {"wait": waiting.append})
    client = await network.client(at)
    accepted = client.call("wait", [], timeout_s=60)
    await until(lambda: len(waiting) == 1)
    closing = asyncio.create_task(server.close(5))
    await asyncio.sleep(0)
    with pytest.raises(ShuttingDown) as raised:
        await client.call("wait", [], timeout_s=60)
    assert not raised.value.sent
    waiting[0].reply(["done"])
    assert (await accepted).body == ["done"]
    await closing
    await until(lambda: not client.connected)


async def test_a_failing_end_of_turn_is_logged_and_harms_nobody(
    network: Network, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    _, at = await network.serve(address, {"echo": echo}, on_turn_end=fail)
    client = await network.client(at)
    with caplog.at_level(logging.ERROR):
        assert (await client.call("echo", [1], timeout_s=60)).body == [1]
    assert "end of turn failed" in caplog.text


async def test_the_peer_is_known_by_its_hello(network: Network, address: str) -> None:
    peers: list[Any] = []

    def accept(call: Call) -> None:
        peers.append(call.peer)
        call.reply([])

    _, at = await network.serve(address, {"who": accept}, hello=Hello("storage", 4, 44, "0.1", 2, "c"))
    client = await network.client(at, hello=Hello("gateway", 7, 70, "0.2", 3, "c"))
    await client.call("who", [], timeout_s=60)
    (peer,) = peers
    assert (peer.role, peer.node_id, peer.incarnation, peer.version, peer.feature_level) == ("gateway", 7, 70, "0.2", 3)
    assert client.peer == Hello("storage", 4, 44, "0.1", 2, "c")
