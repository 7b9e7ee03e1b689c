"""One budget for the answers that clients do not read: memory has a bound, and clients that read are served on."""

import pytest

from services.gateway.core.answer_budget import INLINE_BYTES_MIN, AnswerBudget
from services.gateway.service import Gateway
from tests.gateway.conftest import TOPIC, Rig
from tests.gateway.kafka_client import FETCH, RawClient, fetch_body, frame
from tests.support.polling import until

MIB = 1 << 20
ANSWER = MIB
FETCH_ONE = fetch_body(11, [(TOPIC, [(0, 0)])])


def test_the_client_that_has_read_nothing_for_longest_is_first() -> None:
    answers: AnswerBudget[str] = AnswerBudget(100)
    answers.note("reads", 40, 0, 1.0)
    answers.note("stands still", 40, 0, 2.0)
    answers.note("reads", 40, 10, 3.0)
    answers.note("stands still", 40, 0, 4.0)
    assert answers.stillest() == ("stands still", 2.0)
    assert (answers.used, answers.is_crowded, answers.is_exceeded) == (80, True, False)
    answers.note("new", 40, 0, 5.0)
    assert answers.is_exceeded
    answers.forget("stands still")
    assert (answers.used, answers.is_exceeded) == (80, False)
    answers.note("reads", 0, 50, 6.0)
    answers.note("new", 0, 50, 6.0)
    assert (answers.used, answers.holders(), answers.stillest()) == (0, [], None)


def test_the_only_answer_may_have_any_size() -> None:
    answers: AnswerBudget[str] = AnswerBudget(100)
    answers.note("one", 5000, 0, 1.0)
    assert not answers.is_exceeded


def test_fetches_from_other_hosts_share_what_is_left() -> None:
    answers: AnswerBudget[str] = AnswerBudget(64 * MIB)
    sizes = []
    for _ in range(500):
        sizes.append(answers.inline_bytes_max())
        answers.expected += sizes[-1]
    assert sizes[0] == 4 * MIB
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == INLINE_BYTES_MIN
    assert answers.expected < 64 * MIB + 500 * INLINE_BYTES_MIN
    answers.expected = 0
    answers.note("unread", 32 * MIB, 0, 1.0)
    assert answers.inline_bytes_max() == 2 * MIB


# --- the gateway ----------------------------------------------------------------------------------------------------------


async def start(rig: Rig, **changes: object) -> Gateway:
    rig.nodes[1].file = rig.directory / "segment"
    rig.nodes[1].file.write_bytes(bytes(ANSWER))
    return await rig.start(**({"unread_answer_bytes_max": 8 * MIB, "sendfile_bytes_min": 1 << 30, "drain_s_max": 0.2} | changes))


async def not_reading(rig: Rig, count: int) -> list[RawClient]:
    """Clients that ask for more than the kernel takes, and read nothing of it."""
    clients = [await RawClient.connect(rig.port_base + 1, limit=1024) for _ in range(count)]
    for client in clients:
        client.send(frame(FETCH, 11, 1, FETCH_ONE) * 20)
    return clients


@pytest.mark.parametrize("inline", [False, True], ids=["read here", "from another host"])
async def test_clients_that_read_nothing_are_closed_and_others_are_served(rig: Rig, inline: bool) -> None:
    gateway = await start(rig, crowded_s_max=0.4)
    rig.nodes[1].inline = inline
    answers = gateway.meters.answers
    hostile = await not_reading(rig, 30)

    async def one_is_closed() -> bool:
        # The kernel may have taken so much of what was unread that there is room again. Then others fill it.
        if not answers.is_crowded:
            hostile.extend(await not_reading(rig, 5))
        return rig.closed("unread-answers") > 0

    await until(one_is_closed)
    honest = await rig.client(1)
    for _ in range(20):
        error, (fetched,) = await honest.fetch(11, FETCH_ONE)
        assert (error, len(fetched.records)) == (0, ANSWER)
        assert answers.used <= answers.bytes_max
    await until(lambda: not answers.is_crowded)
    assert gateway.meters.connections > 1, "those that fit stay"
    for client in hostile:
        await client.close()
    await until(lambda: answers.used == 0)


async def test_records_leave_by_sendfile_while_unread_answers_take_much_memory(rig: Rig) -> None:
    gateway = await start(rig, crowded_s_max=60.0)
    answers = gateway.meters.answers
    hostile = await not_reading(rig, 30)
    await until(lambda: gateway.meters.requests.used > 0 and answers.is_crowded and gateway.data_path.files.in_use)
    assert rig.closed("unread-answers") == 0, "files take no memory"
    for client in hostile:
        await client.close()
    await until(lambda: answers.used == 0)


async def test_a_slow_client_is_not_closed_while_there_is_memory(rig: Rig) -> None:
    gateway = await start(rig, crowded_s_max=0.1)
    (slow,) = await not_reading(rig, 1)
    await until(lambda: gateway.meters.answers.used > 0)
    await until(lambda: b"penstock_gateway_unread_answer_bytes 0.0" not in rig.metrics.render())
    for _ in range(20):
        await slow.answer(FETCH, 11)
    await until(lambda: gateway.meters.answers.used == 0)
    assert gateway.meters.closed == {}
    await slow.close()


async def test_another_host_is_asked_for_a_part_of_the_budget(rig: Rig) -> None:
    gateway = await start(rig, unread_answer_bytes_max=16 * MIB)
    await rig.register_by_tcp(rig.nodes[1])
    rig.nodes[1].holding_fetches = True
    client = await rig.client(1)
    client.ask(FETCH, 11, FETCH_ONE)
    node = rig.nodes[1]
    await until(lambda: len(node.fetches) == 1)
    assert node.fetches[0].max_bytes == MIB
    assert gateway.meters.answers.expected == MIB
    await client.close()
    await until(lambda: gateway.meters.answers.expected == 0)
