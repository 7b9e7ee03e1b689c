"""Records as JSON: neighbouring versions read each other, and nothing that is not a record passes for one."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.cluster import keys
from libs.cluster.codec import RecordError, decode, encode
from libs.cluster.records import (
    ClientQuotas,
    ConfigOverrides,
    ElectedController,
    InSync,
    Listener,
    Member,
    NodeRecord,
    PartitionState,
    QuotaEntity,
    Replica,
    Topic,
)

numbers = st.integers(-(2**63), 2**63 - 1)
texts = st.text(max_size=8)
partitions = st.builds(
    PartitionState,
    replicas=st.lists(st.builds(Replica, numbers, texts), max_size=3).map(tuple),
    leader=numbers,
    leader_incarnation=numbers,
    leader_epoch=numbers,
    partition_epoch=numbers,
    isr=st.lists(st.builds(InSync, numbers, numbers), max_size=3).map(tuple),
    owner=texts,
    owner_epoch=numbers,
)
records = st.one_of(
    partitions,
    st.builds(Topic, texts, texts, numbers, st.booleans()),
    st.builds(ConfigOverrides, st.dictionaries(texts, texts)),
    st.builds(ClientQuotas, st.dictionaries(texts, st.floats(allow_nan=False, allow_infinity=False))),
    st.builds(ElectedController, numbers, numbers),
    st.builds(NodeRecord, numbers, st.lists(texts).map(tuple), texts),
    st.builds(
        Member,
        role=texts,
        node_id=numbers,
        incarnation=numbers,
        host_id=texts,
        log_dirs=st.lists(texts, max_size=2).map(tuple),
        listeners=st.lists(st.builds(Listener, texts, texts, numbers), max_size=2).map(tuple),
    ),
)


@settings(deadline=None)
@given(records)
def test_every_record_is_read_back_as_it_was_written(record: Any) -> None:
    assert decode(type(record), encode(record)) == record


def test_a_partition_state_stays_readable_by_people() -> None:
    state = PartitionState((Replica(1, "aa"),), 1, 5, 2, 3, (InSync(1, 5),))
    assert encode(state) == (
        b'{"replicas":[[1,"aa"]],"leader":1,"leader_incarnation":5,"leader_epoch":2,"partition_epoch":3,'
        b'"isr":[[1,5]],"owner":"","owner_epoch":0,"adding":[],"removing":[],"recovering":false,"withdrawn":[],"paced":false,"lax":false}'
    )


def test_fields_of_a_later_version_are_ignored_and_those_of_an_earlier_one_defaulted() -> None:
    later = {"node_id": 1, "incarnation": 2, "mood": {"deep": [1]}}
    assert decode(ElectedController, json.dumps(later).encode()) == ElectedController(1, 2)
    assert decode(NodeRecord, b'{"node_id":3}') == NodeRecord(3)
    longer = b'{"replicas":[[1,"aa","new"]],"leader":1,"leader_incarnation":5,"leader_epoch":2,"partition_epoch":3,"isr":[]}'
    assert decode(PartitionState, longer).replicas == (Replica(1, "aa"),)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "expected an object"),
        (b'{"node_id":1}', "incarnation: missing"),
        (b'{"node_id":"1","incarnation":2}', "node_id: expected int, found str"),
        (b'{"node_id":true,"incarnation":2}', "node_id: expected int, found bool"),
        (b'{"node_id":1.0,"incarnation":2}', "node_id: expected int, found float"),
        (b'{"node_id":null,"incarnation":2}', "node_id: expected int, found NoneType"),
    ],
)
def test_a_value_that_is_not_the_record_is_refused_with_its_reason(value: bytes, complaint: str) -> None:
    with pytest.raises(RecordError, match=complaint):
        decode(ElectedController, value)


def test_a_complaint_names_the_way_to_the_field() -> None:
    with pytest.raises(RecordError, match=r"ConfigOverrides\.values: expected str, found int"):
        decode(ConfigOverrides, b'{"values":{"retention.ms":5}}')
    with pytest.raises(RecordError, match=r"PartitionState\.isr: InSync: expected an array of at least 2"):
        decode(
            PartitionState,
            b'{"replicas":[],"leader":1,"leader_incarnation":5,"leader_epoch":2,"partition_epoch":3,"isr":[[1]]}',
        )


def test_a_type_without_a_json_form_is_a_mistake_of_ours() -> None:
    @dataclass
    class Bad:
        raw: bytes

    with pytest.raises(TypeError):
        encode(Bad(b"a"))
    with pytest.raises(TypeError):
        decode(Bad, b'{"raw":"a"}')


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_lacks_is_neither_written_nor_read(number: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode(ClientQuotas({"producer_byte_rate": number}))
    with pytest.raises(RecordError, match="expected a finite number"):
        decode(ClientQuotas, json.dumps({"values": {"producer_byte_rate": number}}).encode())


@pytest.mark.parametrize(
    ("text", "complaint"), [("true", "found bool"), ('"1"', "found str"), ("1e999", "finite"), ("9" * 400, "finite")]
)
def test_a_rate_is_a_finite_number(text: str, complaint: str) -> None:
    with pytest.raises(RecordError, match=complaint):
        decode(ClientQuotas, b'{"values":{"k":%s}}' % text.encode())


def test_a_rate_may_be_written_as_a_whole_number() -> None:
    assert decode(ClientQuotas, b'{"values":{"k":1048576}}') == ClientQuotas({"k": 1048576.0})


def test_keys_are_split_into_what_they_were_made_of() -> None:
    topic_id = bytes(range(16))
    assert keys.split(keys.member("storage", 3)) == ("members", "storage", "3")
    assert keys.split(keys.topic("a.b-c_d")) == ("topics", "a.b-c_d")
    assert keys.partition_of(keys.partition(topic_id, 12)) == (topic_id, 12)
    assert keys.partition(topic_id, 12).startswith(keys.partitions_of(topic_id))
    assert keys.split(keys.config("broker", "")) == ("configs", "broker", "")
    assert keys.split(keys.config("group", "a/b")) == ("configs", "group", "a/b")
    assert keys.split(keys.node(7)) == ("nodes", "7")
    assert keys.split(keys.CONTROLLER) == ("election", "controller")
    assert keys.split(keys.CLUSTER_ID) == ("cluster_id",)
    assert keys.split(keys.PREFIX + "acls/of/later") == ("acls", "of/later")
    assert keys.split("/elsewhere") == ()


parts = texts | st.sampled_from(["<default>", "%3Cdefault%3E", "a/b", "clients", "%", "ü", "\0"])
entities = st.one_of(
    st.builds(lambda user, client_id: QuotaEntity(user, client_id), parts, st.none() | parts),
    st.builds(lambda client_id: QuotaEntity(client_id=client_id), parts),
    st.builds(lambda ip: QuotaEntity(ip=ip), parts),
)


@given(entities, entities)
def test_each_quota_entity_has_a_key_of_its_own_whatever_its_names_hold(one: QuotaEntity, other: QuotaEntity) -> None:
    key = keys.client_quotas(one)
    assert keys.quota_entity_of(key) == one
    assert (keys.client_quotas(other) == key) is (one == other)


def test_keys_of_quota_entities_are_those_of_kafka_in_zookeeper() -> None:
    assert keys.client_quotas(QuotaEntity("alice")) == keys.QUOTAS + "users/alice"
    assert keys.client_quotas(QuotaEntity("CN=a/b", "")) == keys.QUOTAS + "users/CN%3Da%2Fb/clients/<default>"
    assert keys.client_quotas(QuotaEntity(client_id="<default>")) == keys.QUOTAS + "clients/%3Cdefault%3E"
    assert keys.client_quotas(QuotaEntity(ip="")) == keys.QUOTAS + "ips/<default>"


@pytest.mark.parametrize("place", ["users/", "users/a%2fb", "users/a b", "users/%ED%A0%80", "clients/%zz", "users/u/clients/"])
def test_a_quota_entitys_key_has_one_spelling(place: str) -> None:
    with pytest.raises(RecordError, match="not a quota entity's key"):
        keys.quota_entity_of(keys.QUOTAS + place)


@pytest.mark.parametrize("place", ["a/b", "groups/g", "users/u/groups/g", "users/u/clients/c/d", "users"])
def test_a_kind_of_entity_of_a_later_version_is_passed_over(place: str) -> None:
    assert keys.quota_entity_of(keys.QUOTAS + place) is None
