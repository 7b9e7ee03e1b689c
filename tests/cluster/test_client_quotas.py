"""Whom a quota limits, and who shares it: Kafka's precedence, against a model that walks its list."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.cluster.client_quotas import (
    CLIENT_KEYS,
    CONNECTION_CREATION,
    CONTROLLER_MUTATION,
    FETCH,
    IP_KEY,
    PRODUCE,
    REQUEST,
    UNLIMITED,
    Limit,
    client_limits,
    connection_limit,
    rate_of,
)
from libs.cluster.image import ClusterImage
from libs.cluster.records import QuotaEntity

DEFAULT = ""
PRECEDENCE = [
    ("user", "client"),
    ("user", DEFAULT),
    ("user", None),
    (DEFAULT, "client"),
    (DEFAULT, DEFAULT),
    (DEFAULT, None),
    (None, "client"),
    (None, DEFAULT),
]
"""Kafka's, for user `user` with client id `client`."""


def image(quotas: dict[QuotaEntity, dict[str, float]]) -> ClusterImage:
    return replace(ClusterImage(), client_quotas=quotas)


def test_without_quotas_nothing_is_limited() -> None:
    assert client_limits(ClusterImage(), "u", "c") is UNLIMITED
    assert connection_limit(ClusterImage(), "10.0.0.1") is None


@pytest.mark.parametrize("level", range(8))
def test_the_most_specific_entity_decides_and_the_next_one_when_it_is_removed(level: int) -> None:
    quotas = {QuotaEntity(*parts): {"producer_byte_rate": 100.0 + at} for at, parts in enumerate(PRECEDENCE) if at >= level}
    limit = client_limits(image(quotas), "user", "client")[PRODUCE]
    assert limit is not None
    assert limit.rate == 100.0 + level


@pytest.mark.parametrize(
    ("configured", "of_clients"),
    [
        # each client, as (user, client id), with the user and client id of the entity that limits it
        (QuotaEntity("u", "c"), {("u", "c"): ("u", "c"), ("u", "d"): None, ("v", "c"): None}),
        (QuotaEntity("u", DEFAULT), {("u", "c"): ("u", "c"), ("u", "d"): ("u", "d"), ("v", "c"): None}),
        (QuotaEntity("u"), {("u", "c"): ("u", ""), ("u", "d"): ("u", ""), ("v", "c"): None}),
        (QuotaEntity(DEFAULT, "c"), {("u", "c"): ("u", "c"), ("v", "c"): ("v", "c"), ("u", "d"): None}),
        (QuotaEntity(DEFAULT, DEFAULT), {("u", "c"): ("u", "c"), ("v", "d"): ("v", "d")}),
        (QuotaEntity(DEFAULT), {("u", "c"): ("u", ""), ("u", "d"): ("u", ""), ("v", "c"): ("v", "")}),
        (QuotaEntity(client_id="c"), {("u", "c"): ("", "c"), ("v", "c"): ("", "c"), ("u", "d"): None}),
        (QuotaEntity(client_id=DEFAULT), {("u", "c"): ("", "c"), ("v", "c"): ("", "c"), ("u", "d"): ("", "d")}),
    ],
)
def test_a_limit_is_shared_by_those_whom_its_entity_does_not_tell_apart(
    configured: QuotaEntity, of_clients: dict[tuple[str, str], tuple[str, str] | None]
) -> None:
    for (user, client_id), shared in of_clients.items():
        limit = client_limits(image({configured: {"consumer_byte_rate": 7.0}}), user, client_id)[FETCH]
        assert limit == (Limit((FETCH, *shared), 7.0) if shared is not None else None)


def test_each_kind_of_quota_is_looked_up_by_itself() -> None:
    quotas = {
        QuotaEntity("u", "c"): {"request_percentage": 200.0},
        QuotaEntity("u"): {"producer_byte_rate": 1.0, "request_percentage": 3.0},
        QuotaEntity(client_id=DEFAULT): {"controller_mutation_rate": 0.5, "key_of_a_later_version": 9.0},
    }
    assert client_limits(image(quotas), "u", "c") == (
        Limit((PRODUCE, "u", ""), 1.0),
        None,
        Limit((REQUEST, "u", "c"), 200.0),
        Limit((CONTROLLER_MUTATION, "", "c"), 0.5),
    )


def test_a_client_without_an_id_has_the_limits_of_defaults() -> None:
    quotas = {
        QuotaEntity(client_id=DEFAULT): {"producer_byte_rate": 1.0},
        QuotaEntity(client_id="c"): {"producer_byte_rate": 2.0},
    }
    assert client_limits(image(quotas), "u", "")[PRODUCE] == Limit((PRODUCE, "", ""), 1.0)


def test_an_address_has_its_own_limit_or_that_of_the_default() -> None:
    quotas = {QuotaEntity(ip=DEFAULT): {IP_KEY: 5.0}, QuotaEntity(ip="10.0.0.1"): {IP_KEY: 9.0}}
    assert connection_limit(image(quotas), "10.0.0.1") == Limit((CONNECTION_CREATION, "10.0.0.1", ""), 9.0)
    assert connection_limit(image(quotas), "10.0.0.2") == Limit((CONNECTION_CREATION, "10.0.0.2", ""), 5.0)
    assert connection_limit(image({QuotaEntity(ip="10.0.0.1"): {IP_KEY: 9.0}}), "10.0.0.2") is None
    assert connection_limit(image({QuotaEntity("u"): {"producer_byte_rate": 9.0}}), "10.0.0.2") is None


names = st.sampled_from(["a", "b", DEFAULT])
entities = st.builds(lambda user, client_id: QuotaEntity(user, client_id), names, names | st.none()) | st.builds(
    lambda client_id: QuotaEntity(client_id=client_id), names
)
values = st.dictionaries(st.sampled_from(CLIENT_KEYS), st.floats(1, 9), min_size=1)


@settings(deadline=None)
@given(st.dictionaries(entities, values), st.sampled_from("abc"), st.sampled_from(["a", "b", "c", ""]))
def test_any_quotas_limit_any_client_as_a_walk_of_the_list_does(
    quotas: dict[QuotaEntity, dict[str, float]], user: str, client_id: str
) -> None:
    limits = client_limits(image(quotas), user, client_id)
    for kind, key in enumerate(CLIENT_KEYS):
        assert limits[kind] == walked(quotas, kind, key, user, client_id)


def walked(quotas: dict[QuotaEntity, dict[str, float]], kind: int, key: str, user: str, client_id: str) -> Limit | None:
    """The limit by a walk of all quotas for each level of the list."""
    for users, clients in PRECEDENCE:
        for entity, configured in quotas.items():
            wanted = (users and user, clients and client_id)
            if (entity.user, entity.client_id) == wanted and key in configured:
                return Limit((kind, "" if users is None else user, "" if clients is None else client_id), configured[key])
    return None


@settings(deadline=None)
@given(
    st.dictionaries(entities, values),
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["a", "b", "c", ""])), min_size=2, max_size=8),
)
def test_those_who_share_an_entity_have_the_same_limit(
    quotas: dict[QuotaEntity, dict[str, float]], clients: list[tuple[str, str]]
) -> None:
    """Otherwise one bucket would have two rates."""
    rates: dict[tuple[int, str, str], float] = {}
    for user, client_id in clients:
        for limit in client_limits(image(quotas), user, client_id):
            if limit is not None:
                assert rates.setdefault(limit.entity, limit.rate) == limit.rate
                assert rate_of(image(quotas), limit.entity) == limit.rate


def test_an_entity_without_a_limit_has_no_rate() -> None:
    quotas = {QuotaEntity("u"): {"producer_byte_rate": 1.0}}
    assert rate_of(image(quotas), (PRODUCE, "u", "")) == 1.0
    for entity in ((PRODUCE, "v", ""), (FETCH, "u", ""), (PRODUCE, "u", "c"), (CONNECTION_CREATION, "u", ""), (-1, "u", "")):
        assert rate_of(image(quotas), entity) is None
