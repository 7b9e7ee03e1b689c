"""`controller_mutation_rate` (KIP-599): what the controller lets pass, refuses and has wait, and that it forgets the buckets."""

import asyncio
import json
import math
import random
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.records import ClientQuotas, QuotaEntity
from libs.cluster.store import Delete, Put
from libs.rpc.contracts.controller import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MorePartitions,
    MutatingClient,
    NewTopic,
    TopicRef,
    TopicResult,
    TopicsReply,
)
from libs.wire.errors import ErrorCode
from services.controller.core.model.refusal import Refused
from services.controller.core.topics.create_partitions import create_partitions
from services.controller.core.topics.mutation_quotas import BURST_S, ENTITIES_MAX, THROTTLE_MS_MAX, MutationQuotas
from services.controller.core.topics.replica_assignment import Limits
from services.controller.core.topics.topics import create_topics, delete_topics
from tests.controller.images import image_of, led_by, storage
from tests.controller.running_controller import RunningController, register, running_controller, story

RATE = 2.0
BURST = round(RATE * BURST_S)
STRICT, PERMISSIVE = MutatingClient("ANONYMOUS", "c", True), MutatingClient("ANONYMOUS", "c", False)
EACH_CLIENT, ONE_CLIENT = QuotaEntity(client_id=""), QuotaEntity(client_id="c")
EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


def limiting(quotas: Mapping[QuotaEntity, float]) -> ClusterImage:
    return replace(ClusterImage(), client_quotas={entity: {"controller_mutation_rate": rate} for entity, rate in quotas.items()})


LIMITED = limiting({ONE_CLIENT: RATE})


class Told:
    """Requests of one topic each to the same controller."""

    def __init__(self, image: ClusterImage = LIMITED) -> None:
        self.quotas = MutationQuotas()
        self.image = image

    def ask(self, client: MutatingClient | None, partitions: int, now: float) -> tuple[bool, int]:
        """Whether it is done, and the throttle time in milliseconds."""
        quota = self.quotas.of(self.image, client)
        error = ErrorCode.NONE
        try:
            quota.at(now)("t", partitions)
        except Refused as refusal:
            error = refusal.error
        assert error in (ErrorCode.NONE, EXCEEDED)
        return error == ErrorCode.NONE, quota.throttle_ms(now)


def test_a_strict_client_is_refused_until_its_debt_is_paid() -> None:
    those = Told()
    assert those.ask(STRICT, BURST, 0.0) == (True, 0)
    assert those.ask(STRICT, 4, 0.0) == (True, 0)  # the bucket is empty, but in no debt
    assert those.ask(STRICT, 1, 0.0) == (False, 2000)
    assert those.ask(STRICT, 1, 1.5) == (False, 500)
    assert those.ask(STRICT, 1, 2.0) == (True, 0)


def test_a_topic_of_any_size_passes_while_there_is_no_debt() -> None:
    those = Told()
    assert those.ask(STRICT, BURST + 1000, 0.0) == (True, 0)
    assert those.ask(STRICT, 1, 0.0) == (False, 500_000)


def test_a_permissive_client_is_never_refused_and_waits_as_soon_as_it_is_in_debt() -> None:
    those = Told()
    assert those.ask(PERMISSIVE, BURST, 0.0) == (True, 0)
    assert those.ask(PERMISSIVE, 3, 0.0) == (True, 1500)
    assert those.ask(PERMISSIVE, 3, 1.0) == (True, 2000)


def test_strict_and_permissive_requests_of_a_client_share_a_bucket() -> None:
    those = Told()
    those.ask(PERMISSIVE, BURST + 2, 0.0)
    assert those.ask(STRICT, 1, 0.0) == (False, 1000)


def test_a_refused_topic_costs_nothing() -> None:
    those = Told()
    those.ask(STRICT, BURST + 2, 0.0)
    for _ in range(5):
        assert those.ask(STRICT, 1000, 0.0) == (False, 1000)
    assert those.ask(STRICT, 1, 1.0) == (True, 0)


def test_a_bucket_holds_eleven_seconds_of_the_rate_at_most() -> None:
    those = Told()
    those.ask(STRICT, BURST, 0.0)
    assert those.ask(STRICT, BURST + 2, 1000.0) == (True, 0)
    assert those.ask(STRICT, 1, 1000.0) == (False, 1000)


def test_the_throttle_time_is_what_is_left_when_the_answer_is_made() -> None:
    quota = MutationQuotas().of(LIMITED, PERMISSIVE)
    quota.at(5.0)("t", BURST + 4)
    assert [quota.throttle_ms(now) for now in (5.0, 5.25, 7.0, 8.0)] == [2000, 1750, 0, 0]
    assert quota.throttle_ms(6.9999) == 1, "who owes is told to wait, however little"


def test_clients_without_a_quota_and_requests_of_services_are_not_charged() -> None:
    those = Told()
    for client in (None, MutatingClient("ANONYMOUS", "other", True), MutatingClient("ANONYMOUS", "", False)):
        assert those.ask(client, 1_000_000, 0.0) == (True, 0)
        assert those.ask(client, 1_000_000, 0.0) == (True, 0)
    assert those.quotas.in_use(0.0) == 0


def test_a_quota_of_a_default_holds_for_each_client_by_itself_and_one_of_a_user_for_all_its_clients() -> None:
    for entity, is_shared in ((EACH_CLIENT, False), (QuotaEntity("ANONYMOUS"), True)):
        those = Told(limiting({entity: RATE}))
        those.ask(MutatingClient("ANONYMOUS", "a", True), BURST + 1, 0.0)
        assert those.ask(MutatingClient("ANONYMOUS", "b", True), 1, 0.0)[0] is not is_shared


def test_a_request_that_is_decided_again_charges_each_topic_once() -> None:
    those = Told()
    quota = those.quotas.of(LIMITED, STRICT)
    for now in (0.0, 0.0, 0.0):
        quota.at(now)("t", BURST)
        quota.at(now)("u", 0)
    assert quota.throttle_ms(0.0) == 0
    assert those.ask(STRICT, 2, 0.0) == (True, 0)
    assert those.ask(STRICT, 1, 0.0) == (False, 1000)


def test_a_changed_quota_pays_the_debt_sooner_or_later_from_the_last_use_on() -> None:
    those = Told()
    those.ask(STRICT, BURST + 20, 0.0)
    those.image = limiting({ONE_CLIENT: 10.0})
    assert those.ask(STRICT, 1, 1.0) == (False, 1000)
    those.image = limiting({ONE_CLIENT: 0.5})
    assert those.ask(STRICT, 1, 2.0) == (False, 19_000)


def test_a_smaller_quota_takes_tokens_away_that_its_bucket_cannot_hold() -> None:
    those = Told()
    those.ask(STRICT, 1, 0.0)
    those.image = limiting({ONE_CLIENT: 1.0})
    assert those.ask(STRICT, 12, 0.0) == (True, 0)
    assert those.ask(STRICT, 1, 0.0) == (False, 1000)


@pytest.mark.parametrize("rate", [5e-324, 1e-9, 1.7976931348623157e308])
def test_absurd_rates_have_throttle_times_that_an_answer_can_hold(rate: float) -> None:
    those = Told(limiting({ONE_CLIENT: rate}))
    for client in (STRICT, PERMISSIVE, STRICT):
        _, throttle_ms = those.ask(client, 10_000, 0.0)
        assert 0 <= throttle_ms <= THROTTLE_MS_MAX
    assert those.ask(STRICT, 1, 1.0) == ((True, 0) if rate > 1 else (False, THROTTLE_MS_MAX))
    json.dumps(those.quotas.view(1.0), allow_nan=False)


def test_a_bucket_that_is_full_again_is_forgotten() -> None:
    those = Told()
    those.ask(STRICT, 2, 0.0)
    assert those.quotas.in_use(0.5) == 1
    assert those.quotas.in_use(1.0) == 0


def test_the_bucket_of_who_has_no_quota_any_more_is_forgotten() -> None:
    those = Told(limiting({ONE_CLIENT: RATE, QuotaEntity(client_id="d"): RATE}))
    for name in ("c", "d"):
        those.ask(MutatingClient("ANONYMOUS", name, True), BURST + 50, 0.0)
    those.quotas.keep_limited(LIMITED)
    assert [row["client_id"] for row in those.quotas.view(0.0)] == ["c"]


def test_however_many_clients_there_are_the_buckets_are_bounded_and_the_longest_unused_goes() -> None:
    those = Told(limiting({EACH_CLIENT: RATE}))
    for number in range(ENTITIES_MAX):
        those.ask(MutatingClient("ANONYMOUS", str(number), True), 1000, 0.0)
    assert those.ask(MutatingClient("ANONYMOUS", "0", True), 1, 0.0)[0] is False  # used again
    those.ask(MutatingClient("ANONYMOUS", "one more", True), 1000, 0.0)
    assert those.quotas.in_use(0.0) == ENTITIES_MAX
    assert those.ask(MutatingClient("ANONYMOUS", "0", True), 1, 0.0)[0] is False
    assert those.ask(MutatingClient("ANONYMOUS", "1", True), 1, 0.0)[0] is True


def test_the_view_begins_with_who_waits_longest() -> None:
    those = Told(limiting({EACH_CLIENT: RATE}))
    for name, partitions in (("little", 1), ("most", BURST + 9), ("some", BURST + 4)):
        those.ask(MutatingClient("ANONYMOUS", name, True), partitions, 0.0)
    assert [(row["client_id"], row["tokens"], row["in_debt_for_s"]) for row in those.quotas.view(0.5)] == [
        ("most", -8.0, 4.0),
        ("some", -3.0, 1.5),
    ]


def test_each_topic_beyond_the_quota_is_counted() -> None:
    those = Told()
    for client in (STRICT, PERMISSIVE, STRICT, PERMISSIVE):
        those.ask(client, BURST - 1, 0.0)
    assert those.quotas.exceeded == 3


STEPS = st.lists(
    st.tuples(st.integers(0, 30_000), st.integers(1, 60), st.booleans(), st.sampled_from([0.5, 2.0, 7.0])), max_size=40
)


@given(STEPS)
def test_whatever_is_asked_the_quota_is_what_a_dumb_model_says(steps: list[tuple[int, int, bool, float]]) -> None:
    """The model counts tokens a quarter of a second at a time, and never forgets."""
    those, level, quarters = Told(), math.inf, 0
    for later, partitions, strict, rate in steps:
        waited = later // 250
        quarters += waited
        those.image = limiting({ONE_CLIENT: rate})
        for _ in range(waited):
            level = min(rate * BURST_S, level + rate / 4)
        level = min(rate * BURST_S, level)
        is_done = not strict or level >= 0
        in_debt_s = -level / rate if not is_done else 0.0
        if is_done:
            level -= partitions
            in_debt_s = 0.0 if strict else max(0.0, -level / rate)
        done, throttle_ms = those.ask(replace(STRICT, strict=strict), partitions, quarters / 4)
        assert done is is_done
        assert throttle_ms == pytest.approx(1000 * in_debt_s, abs=1)


# The decisions of the three requests


def results(decided: tuple[TopicResult, ...]) -> list[tuple[str, int]]:
    return [(result.name, result.error) for result in decided]


THREE = replace(
    image_of(storage(1), storage(2), storage(3), topics={"two": [led_by(1)] * 2, "one": [led_by(1)]}),
    client_quotas=LIMITED.client_quotas,
)


def in_debt(partitions: int) -> Told:
    those = Told(THREE)
    those.ask(STRICT, BURST + partitions, 0.0)
    return those


def test_topics_beyond_the_quota_are_not_created_and_their_names_are_free() -> None:
    quota = Told(THREE).quotas.of(THREE, STRICT)
    request = CreateTopics((NewTopic("a", BURST + 1, 1), NewTopic("b.c", 1, 1), NewTopic("b_c", 1, 1)))
    decision = create_topics(THREE, request, random.Random(7), Limits(), quota.at(0.0))
    assert [planned.topic.name for planned in decision.planned] == ["a"]
    assert results(decision.refused) == [("b.c", EXCEEDED), ("b_c", EXCEEDED)]
    assert {result.message for result in decision.refused} == {"The throttling quota has been exceeded."}


def test_a_topic_that_is_refused_for_another_reason_costs_nothing() -> None:
    for existing_first in (True, False):
        those = Told(THREE)
        topics = [NewTopic("two", 1000, 1), NewTopic("new", BURST, 1)]
        request = CreateTopics(tuple(topics if existing_first else reversed(topics)))
        charge = those.quotas.of(THREE, STRICT).at(0.0)
        decision = create_topics(THREE, request, random.Random(7), Limits(), charge)
        assert results(decision.refused) == [("two", ErrorCode.TOPIC_ALREADY_EXISTS)]
        assert those.ask(STRICT, 1, 0.0) == (True, 0)
    charge = in_debt(2).quotas.of(THREE, STRICT).at(0.0)
    decision = create_topics(THREE, CreateTopics((NewTopic("two", 1, 1),)), random.Random(7), Limits(), charge)
    assert results(decision.refused) == [("two", ErrorCode.TOPIC_ALREADY_EXISTS)]


def test_a_deletion_costs_the_partitions_of_its_topic() -> None:
    those = Told(THREE)
    those.ask(STRICT, BURST, 0.0)
    charge = those.quotas.of(THREE, STRICT).at(0.0)
    decision = delete_topics(THREE, DeleteTopics((TopicRef("two"), TopicRef("one"), TopicRef("none"))), charge)
    assert [topic.name for topic in decision.topics] == ["two"]
    errors = [ErrorCode.NONE, EXCEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert results(decision.results) == list(zip(("two", "one", "none"), errors, strict=True))
    assert those.ask(STRICT, 1, 0.0) == (False, 1000)


def test_growth_costs_the_partitions_that_are_added_before_assigned_brokers_are_looked_at() -> None:
    def grow(those: Told, *topics: MorePartitions) -> list[tuple[str, int]]:
        charge = those.quotas.of(THREE, STRICT).at(0.0)
        decision = create_partitions(THREE, CreatePartitions(topics), random.Random(7), Limits(), charge)
        return [(each.result.name, each.result.error) for each in decision.planned] + results(decision.refused)

    unknown = MorePartitions("two", 3, ((9,),))
    assert grow(in_debt(-1), MorePartitions("two", 5), MorePartitions("one", 2)) == [("two", 0), ("one", EXCEEDED)]
    assert grow(in_debt(1), unknown) == [("two", EXCEEDED)]
    assert grow(in_debt(1), MorePartitions("two", 2)) == [("two", ErrorCode.INVALID_PARTITIONS)]
    assert grow(in_debt(-1), unknown, MorePartitions("one", 3)) == [
        ("one", 0),
        ("two", ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ]
    assert grow(in_debt(0), unknown, MorePartitions("one", 3)) == [
        ("two", ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("one", EXCEEDED),
    ]


# A running controller


async def set_quota(running: RunningController, store: MemoryStore, rate: float | None) -> None:
    key = keys.client_quotas(ONE_CLIENT)
    await store.txn([], [Delete(key) if rate is None else Put(key, encode(ClientQuotas({"controller_mutation_rate": rate})))])
    await running.image_when(lambda image: (ONE_CLIENT in image.client_quotas) is (rate is not None))


async def create(running: RunningController, name: str, partitions: int, client: MutatingClient | None) -> TopicsReply:
    request = CreateTopics((NewTopic(name, partitions, 1),), client=client)
    return await running.controller.administer(lambda administration, term: administration.create_topics(term, request))


async def delete(running: RunningController, name: str, client: MutatingClient | None) -> TopicsReply:
    request = DeleteTopics((TopicRef(name),), client=client)
    return await running.controller.administer(lambda administration, term: administration.delete_topics(term, request))


async def grow(running: RunningController, name: str, count: int, client: MutatingClient | None) -> TopicsReply:
    request = CreatePartitions((MorePartitions(name, count),), client=client)
    return await running.controller.administer(lambda administration, term: administration.create_partitions(term, request))


@story
async def test_nothing_is_done_for_a_refused_topic_and_the_reply_tells_how_long_to_wait() -> None:
    store = MemoryStore()
    await register(store, storage(1))
    async with running_controller(store) as running:
        await running.elected()
        await set_quota(running, store, RATE)
        assert (await create(running, "a", BURST + 10, STRICT)).throttle_ms == 0
        for reply in (
            await create(running, "b", 1, STRICT),
            await delete(running, "a", STRICT),
            await grow(running, "a", 100, STRICT),
        ):
            assert [result.error for result in reply.topics] == [EXCEEDED]
            assert 4000 < reply.throttle_ms <= 5000
        assert {name: topic.partitions for name, topic in running.image.topics.items()} == {"a": BURST + 10}
        await asyncio.sleep(5)
        assert (await delete(running, "a", STRICT)).topics[0].error == ErrorCode.NONE
        assert running.image.topics == {}


@story
async def test_permissive_requests_are_carried_out_and_told_to_wait() -> None:
    store = MemoryStore()
    await register(store, storage(1))
    async with running_controller(store) as running:
        await running.elected()
        await set_quota(running, store, RATE)
        waits = [
            (await create(running, "a", BURST + 4, PERMISSIVE)).throttle_ms,
            (await grow(running, "a", BURST + 6, PERMISSIVE)).throttle_ms,
            (await create(running, "b", 2, PERMISSIVE)).throttle_ms,
            (await delete(running, "b", PERMISSIVE)).throttle_ms,
        ]
        assert waits == pytest.approx([2000, 3000, 4000, 5000], abs=500)
        assert {name: topic.partitions for name, topic in running.image.topics.items()} == {"a": BURST + 6}


@story
async def test_a_request_that_only_validates_counts() -> None:
    store = MemoryStore()
    await register(store, storage(1))
    async with running_controller(store) as running:
        await running.elected()
        await set_quota(running, store, RATE)
        request = CreateTopics((NewTopic("a", BURST + 1, 1),), validate_only=True, client=STRICT)
        await running.controller.administer(lambda administration, term: administration.create_topics(term, request))
        assert (await create(running, "a", 1, STRICT)).topics[0].error == EXCEEDED


@story
async def test_a_quota_that_is_removed_frees_the_client_and_its_bucket() -> None:
    store = MemoryStore()
    await register(store, storage(1))
    async with running_controller(store) as running:
        await running.elected()
        await set_quota(running, store, RATE)
        await create(running, "a", BURST + 1000, STRICT)
        assert (await create(running, "b", 1, STRICT)).topics[0].error == EXCEEDED
        shown = running.controller.debug()["mutations"]()
        assert isinstance(shown, list)
        assert [(row["user"], row["client_id"]) for row in shown] == [("", "c")]
        await set_quota(running, store, None)
        assert running.controller.debug()["mutations"]() == []
        assert (await create(running, "b", 1, STRICT)).topics[0].error == ErrorCode.NONE


@story
async def test_a_new_controller_begins_with_full_buckets() -> None:
    store = MemoryStore()
    await register(store, storage(1))
    async with running_controller(store, 1) as running:
        await running.elected()
        await set_quota(running, store, RATE)
        await create(running, "a", BURST + 1000, STRICT)
        assert (await create(running, "b", 1, STRICT)).topics[0].error == EXCEEDED
    async with running_controller(store, 2) as running:
        await running.elected()
        assert (await create(running, "b", 1, STRICT)).topics[0].error == ErrorCode.NONE
