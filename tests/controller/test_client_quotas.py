"""AlterClientQuotas at the controller: what is refused, and that all changes of an entity are stored, or none."""

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from libs.cluster import keys
from libs.cluster.client_quotas import CLIENT_KEYS, IP_KEY
from libs.cluster.image import ClusterImage
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.records import QuotaEntity
from libs.rpc.contracts.controller import (
    AlterClientQuotas,
    AlterClientQuotasReply,
    EntityQuotas,
    EntityQuotasResult,
    QuotaChange,
    QuotaEntityParts,
)
from libs.wire.errors import ErrorCode
from services.controller.core.administration.client_quotas import QuotaAlteration, alter_client_quotas
from services.controller.term import writes
from services.controller.term.fenced_writer import Conflict
from tests.controller.running_controller import RunningController, running_controller, story

PRODUCER, CONSUMER, PERCENTAGE, MUTATIONS = CLIENT_KEYS
USER: QuotaEntityParts = (("user", "u"),)
ADDRESS: QuotaEntityParts = (("ip", "10.0.0.1"),)


def image(quotas: Mapping[QuotaEntity, Mapping[str, float]] | None = None) -> ClusterImage:
    return replace(ClusterImage(), client_quotas=quotas or {})


def sets(entity: QuotaEntityParts, **values: float | None) -> EntityQuotas:
    return EntityQuotas(entity, tuple([QuotaChange(key, value) for key, value in values.items()]))


def alter(before: ClusterImage, *entities: EntityQuotas) -> list[QuotaAlteration]:
    return alter_client_quotas(before, entities)


def refusal(*changes: QuotaChange, entity: QuotaEntityParts = USER) -> str:
    """The message of a change that is refused with INVALID_REQUEST. Its entity is not to be written."""
    (alteration,) = alter(image(), EntityQuotas(entity, changes))
    assert alteration.result.entity == entity
    assert alteration.result.error == ErrorCode.INVALID_REQUEST
    assert not alteration.changes(image())
    assert alteration.result.message is not None
    return alteration.result.message


@pytest.mark.parametrize(
    ("parts", "entity"),
    [
        ((("user", "u"),), QuotaEntity("u")),
        ((("user", None),), QuotaEntity("")),
        ((("client-id", "c"),), QuotaEntity(client_id="c")),
        ((("client-id", None),), QuotaEntity(client_id="")),
        ((("client-id", "c"), ("user", "u")), QuotaEntity("u", "c")),
        ((("client-id", None), ("user", "u")), QuotaEntity("u", "")),
        ((("client-id", "c"), ("user", None)), QuotaEntity("", "c")),
        ((("client-id", None), ("user", None)), QuotaEntity("", "")),
        ((("ip", "10.0.0.1"),), QuotaEntity(ip="10.0.0.1")),
        ((("ip", "2001:db8::1"),), QuotaEntity(ip="2001:db8::1")),
        ((("ip", None),), QuotaEntity(ip="")),
    ],
)
def test_each_combination_of_kafka_is_an_entity(parts: QuotaEntityParts, entity: QuotaEntity) -> None:
    key = PRODUCER if entity.ip is None else IP_KEY
    (alteration,) = alter(image(), EntityQuotas(parts, (QuotaChange(key, 5.0),)))
    assert alteration == QuotaAlteration(EntityQuotasResult(parts, ErrorCode.NONE), entity, {key: 5.0})


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((), "Invalid empty client quota entity"),
        ((("user", ""),), "Empty user not supported"),
        ((("client-id", ""), ("user", "u")), "Empty client-id not supported"),
        ((("ip", ""),), "Empty ip not supported"),
        ((("group", "g"),), "Unhandled client quota entity type: group"),
        ((("", "g"), ("user", "u")), "Unhandled client quota entity type: "),
        ((("ip", "10.0.0.1"), ("user", "u")), "should not be combined"),
        ((("client-id", "c"), ("ip", None)), "should not be combined"),
        ((("ip", "localhost"),), "localhost is not a valid IP address"),
        ((("ip", "10.0.0"),), "10.0.0 is not a valid IP address"),
        ((("ip", "2001:DB8::1"),), "usual spelling 2001:db8::1"),
        ((("ip", "::ffff:10.0.0.1"),), "usual spelling 10.0.0.1"),
    ],
)
def test_any_other_entity_is_refused(parts: QuotaEntityParts, message: str) -> None:
    key = IP_KEY if any(kind == "ip" for kind, _ in parts) else PRODUCER
    assert message in refusal(QuotaChange(key, 5.0), entity=parts)


@pytest.mark.parametrize("key", [*CLIENT_KEYS, IP_KEY])
@pytest.mark.parametrize("value", [0.0, -0.0, -1.0, -math.inf, math.nan])
def test_a_quota_is_more_than_nothing(key: str, value: float) -> None:
    entity = ADDRESS if key == IP_KEY else USER
    assert refusal(QuotaChange(key, value), entity=entity) == f"Quota {key} must be greater than 0"


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        (PRODUCER, math.inf, "LONG"),
        (PRODUCER, 1e19, "LONG"),
        (CONSUMER, 1e300, "LONG"),
        (PERCENTAGE, math.inf, "DOUBLE"),
        (MUTATIONS, math.inf, "DOUBLE"),
        (IP_KEY, 2.0**31, "INT"),
    ],
)
def test_a_quota_fits_into_kafkas_type(key: str, value: float, kind: str) -> None:
    entity = ADDRESS if key == IP_KEY else USER
    assert refusal(QuotaChange(key, value), entity=entity) == f"Proposed value for {key} is too large for a {kind}."


@pytest.mark.parametrize("value", [1e-300, 1e-6])
def test_an_address_may_connect_once_a_second_at_least(value: float) -> None:
    """Kafka takes these values, and refuses each connection then, also of who wants to change it back."""
    message = f"{IP_KEY} cannot be below 1: an address could hardly connect to change it back."
    assert refusal(QuotaChange(IP_KEY, value), entity=ADDRESS) == message


@pytest.mark.parametrize("key", [PRODUCER, CONSUMER, IP_KEY])
@pytest.mark.parametrize("value", [0.5, 1.5, 0.9999999, 1.00001])
def test_rates_of_bytes_and_connections_are_whole_numbers(key: str, value: float) -> None:
    entity = ADDRESS if key == IP_KEY else USER
    assert refusal(QuotaChange(key, value), entity=entity) == f"{key} cannot be a fractional value."


@pytest.mark.parametrize(
    ("key", "value"),
    [(PRODUCER, 2.0**63), (CONSUMER, 1.0000001), (PERCENTAGE, 0.5), (PERCENTAGE, 1e300), (MUTATIONS, 1.5), (IP_KEY, 2.0**31 - 1)],
)
def test_values_at_kafkas_bounds_are_taken(key: str, value: float) -> None:
    (alteration,) = alter(image(), EntityQuotas(ADDRESS if key == IP_KEY else USER, (QuotaChange(key, value),)))
    assert (alteration.result.error, alteration.values) == (ErrorCode.NONE, {key: value})


@pytest.mark.parametrize(
    ("key", "entity"), [("nope", USER), ("", USER), (IP_KEY, USER), (PRODUCER, ADDRESS), (MUTATIONS, ADDRESS)]
)
def test_a_quota_that_the_entity_cannot_have_is_refused(key: str, entity: QuotaEntityParts) -> None:
    assert refusal(QuotaChange(key, 5.0), entity=entity) == f"Invalid configuration key {key}"


def test_a_quota_that_is_named_twice_is_refused() -> None:
    for second in (2.0, 1.0, None):
        assert "Duplicate quota key" in refusal(QuotaChange(PRODUCER, 1.0), QuotaChange(PRODUCER, second))


def test_an_entity_that_is_named_twice_is_refused_and_the_others_are_not() -> None:
    """Kafka refuses it too, but makes the first change all the same."""
    twice, other = alter(image(), sets(USER, producer_byte_rate=1.0), sets(ADDRESS, connection_creation_rate=2.0), sets(USER))
    assert (twice.result.entity, twice.result.error, twice.entity) == (USER, ErrorCode.INVALID_REQUEST, None)
    assert (other.result.error, other.values) == (ErrorCode.NONE, {IP_KEY: 2.0})


def test_one_bad_quota_leaves_all_others_of_its_entity_as_they_are() -> None:
    for changes in ({"nope": 1.0, PRODUCER: 5.0}, {PRODUCER: 5.0, "nope": 1.0}, {PRODUCER: None, CONSUMER: -1.0}):
        before = image({QuotaEntity("u"): {PRODUCER: 1.0}})
        (alteration,) = alter(before, sets(USER, **changes))
        assert alteration.result.error == ErrorCode.INVALID_REQUEST
        assert not alteration.changes(before)


def test_quotas_that_are_not_named_stay() -> None:
    before = image({QuotaEntity("u"): {PRODUCER: 1.0, CONSUMER: 2.0, PERCENTAGE: 3.0}})
    (alteration,) = alter(before, sets(USER, producer_byte_rate=9.0, consumer_byte_rate=None, controller_mutation_rate=4.0))
    assert alteration.values == {PRODUCER: 9.0, PERCENTAGE: 3.0, MUTATIONS: 4.0}
    assert alteration.changes(before)


@pytest.mark.parametrize(
    "changes", [{}, {PRODUCER: 1.0}, {CONSUMER: None}, {"nope": None}], ids=["nothing", "as it is", "not set", "unknown"]
)
def test_a_change_of_nothing_is_no_error_and_writes_nothing(changes: dict[str, float | None]) -> None:
    before = image({QuotaEntity("u"): {PRODUCER: 1.0}})
    (alteration,) = alter(before, sets(USER, **changes))
    assert (alteration.result.error, alteration.changes(before)) == (ErrorCode.NONE, False)


async def change(running: RunningController, *entities: EntityQuotas, validate_only: bool = False) -> AlterClientQuotasReply:
    request = AlterClientQuotas(entities, validate_only)
    return await running.controller.administer(lambda administration, term: administration.alter_client_quotas(term, request))


@story
async def test_quotas_are_stored_and_the_next_controller_knows_them() -> None:
    store = MemoryStore()
    async with running_controller(store) as running:
        await running.elected()
        wanted = sets(USER, producer_byte_rate=1024.0), sets(ADDRESS, connection_creation_rate=3.0), sets((("group", "g"),))
        validated = await change(running, *wanted, validate_only=True)
        assert running.image.client_quotas == {}
        reply = await change(running, *wanted)
        assert [result.error for result in validated.entities] == [result.error for result in reply.entities] == [0, 0, 42]
        assert [result.entity for result in reply.entities] == [USER, ADDRESS, (("group", "g"),)]
        assert running.image.mod_revision(keys.client_quotas(QuotaEntity("u"))) == reply.revision > validated.revision
        again = await change(running, *wanted)
        assert again.revision == reply.revision
    async with running_controller(store.peer(), 2) as running:
        await running.elected()
        assert running.image.client_quotas == {QuotaEntity("u"): {PRODUCER: 1024.0}, QuotaEntity(ip="10.0.0.1"): {IP_KEY: 3.0}}
        await change(running, sets(USER, producer_byte_rate=None), sets(ADDRESS, connection_creation_rate=None))
        assert running.image.client_quotas == {}
        assert (await store.range(keys.QUOTAS)).items == ()


@story
async def test_more_entities_than_a_transaction_holds_are_all_altered_also_with_long_names() -> None:
    async with running_controller(MemoryStore()) as running:
        await running.elected()
        short: list[QuotaEntityParts] = [(("user", f"u{number}"),) for number in range(150)]
        long: list[QuotaEntityParts] = [(("user", f"{number}/" + "ü" * 10_000),) for number in range(3)]
        for entities in (short, long):
            reply = await change(running, *[sets(entity, producer_byte_rate=5.0) for entity in entities])
            assert {result.error for result in reply.entities} == {0}
            assert len(running.image.client_quotas) == len(entities)
            # The deletions of one transaction are met by those that come after it.
            mixed = [sets(entity, producer_byte_rate=None) for entity in entities]
            mixed[1::2] = [sets((("client-id", str(number)),), producer_byte_rate=1.0) for number in range(len(mixed[1::2]))]
            reply = await change(running, *mixed)
            assert {result.error for result in reply.entities} == {0}
            left = [sets((("client-id", str(number)),), producer_byte_rate=None) for number in range(len(mixed[1::2]))]
            reply = await change(running, *left, *[sets(entity, producer_byte_rate=None) for entity in entities])
            assert running.image.client_quotas == {}


@story
async def test_a_change_that_was_decided_on_older_quotas_conflicts() -> None:
    async with running_controller(MemoryStore()) as running:
        await running.elected()
        term = running.controller.active_term()
        before = running.image
        for value in (1.0, 2.0):
            decided = alter_client_quotas(before, [sets(USER, producer_byte_rate=value)])
            ((write, made),) = writes.quota_alterations(before, lambda: before, decided)
            assert made == decided
            if value == 1.0:
                await term.commit(write)
            else:
                with pytest.raises(Conflict):
                    await term.commit(write)
        assert running.image.client_quotas == {QuotaEntity("u"): {PRODUCER: 1.0}}
