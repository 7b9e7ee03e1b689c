"""The image by events is the image by range, whatever happened; and a step costs what it changes."""

import time
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.cluster import keys
from libs.cluster.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from libs.cluster.codec import RecordError, encode
from libs.cluster.image import ClusterImage, PartitionChange
from libs.cluster.memory.memory_keyspace import Keyspace
from libs.cluster.records import (
    AclRecord,
    ClientQuotas,
    ConfigOverrides,
    ElectedController,
    InSync,
    Member,
    NodeRecord,
    PartitionState,
    QuotaEntity,
    Replica,
    Topic,
)
from libs.cluster.store import Delete, Operation, Put, RangeResult, WatchBatch, WatchEvent

IDS = [bytes([number]) * 16 for number in range(3)]


def state(leader: int = 1, epoch: int = 0) -> PartitionState:
    return PartitionState((Replica(1, "d1"), Replica(2, "d2")), leader, 7, epoch, epoch, (InSync(1, 7),))


def topic(number: int, partitions: int = 1) -> Topic:
    return Topic(f"t{number}", IDS[number].hex(), partitions)


def acl(name: str, operation: AclOperation = AclOperation.READ) -> AclBinding:
    return AclBinding(ResourceType.GROUP, PatternType.PREFIXED, name, "User:u", "::1", operation, AclPermission.DENY)


def put(key: str, record: object) -> Put:
    return Put(key, encode(record))


topic_numbers = st.integers(0, 2)
indexes = st.integers(0, 4)
epochs = st.integers(0, 3)
writes = st.one_of(
    st.builds(
        lambda number, index, epoch: put(keys.partition(IDS[number], index), state(1, epoch)), topic_numbers, indexes, epochs
    ),
    st.builds(lambda number, count: put(keys.topic(f"t{number}"), topic(number, count)), topic_numbers, indexes),
    st.builds(
        lambda role, node, incarnation: put(keys.member(role, node), Member(role, node, incarnation, "h")),
        st.sampled_from(["storage", "gateway"]),
        st.integers(1, 2),
        epochs,
    ),
    st.builds(lambda node: put(keys.node(node), NodeRecord(node)), st.integers(1, 2)),
    st.builds(
        lambda kind, name, value: put(keys.config(kind, name), ConfigOverrides({"retention.ms": value})),
        st.sampled_from(["topic", "broker"]),
        st.sampled_from(["t0", ""]),
        st.sampled_from(["1", "2"]),
    ),
    st.builds(lambda node: put(keys.CONTROLLER, ElectedController(node, 1)), st.integers(1, 2)),
    st.sampled_from(
        [put(keys.CLUSTER_ID, "abc"), put(keys.FEATURE_LEVEL, 2), put(keys.feature("f"), 1), put(keys.PRODUCER_IDS, 1000)]
    ),
    st.builds(
        lambda user, client_id, rate: put(
            keys.client_quotas(QuotaEntity(user, client_id)), ClientQuotas({"producer_byte_rate": rate})
        ),
        st.sampled_from(["u/v", ""]),
        st.sampled_from(["c", "", None]),
        st.floats(1, 2),
    ),
    st.builds(
        lambda name, operation: put(keys.acl(acl(name, operation)), AclRecord()),
        st.sampled_from(["a/b", "*"]),
        st.sampled_from([AclOperation.READ, AclOperation.ALL]),
    ),
    st.just(Put(keys.PREFIX + "later/kind", b"not even JSON")),
    st.just(Put(keys.QUOTAS + "later/kind", b"not even JSON")),
    st.just(Put(keys.ACLS + "LATER/LITERAL/t/User%3Au/%2A/READ/ALLOW", b"not even JSON")),
)
deletes = st.one_of(
    writes.map(lambda write: Delete(write.key)),
    topic_numbers.map(lambda number: Delete(keys.partitions_of(IDS[number]), prefix=True)),
)
transactions = st.lists(
    st.lists(st.one_of(writes, deletes), min_size=1, max_size=4, unique_by=lambda each: each.key), min_size=1, max_size=30
)


def test_acls_of_a_later_version_are_counted_until_they_are_deleted() -> None:
    later = keys.ACLS + "LATER/LITERAL/t/User%3Au/%2A/READ/DENY"
    _, batches = history([[Put(later, b"{}")], [Put(later, b"{} ")], [Delete(later)]])
    image = ClusterImage()
    counts = []
    for each in batches:
        image = image.apply(each)
        counts.append(list(image.unknown_acls))
    assert counts == [[later], [later], []]


def history(steps: Sequence[Sequence[Operation]]) -> tuple[Keyspace, list[WatchBatch]]:
    keyspace = Keyspace()
    for step in steps:
        keyspace.write(step)
    return keyspace, keyspace.since(0, keys.PREFIX)


def merged(batches: Sequence[WatchBatch]) -> WatchBatch:
    return WatchBatch(tuple(event for batch in batches for event in batch.events), batches[-1].revision)


@settings(deadline=None)
@given(transactions, st.integers(1, 5))
def test_following_events_gives_the_same_image_as_listing(steps: list[list[Operation]], chunk: int) -> None:
    keyspace, batches = history(steps)
    image = ClusterImage.from_range(RangeResult((), 1))
    for start in range(0, len(batches), chunk):
        image = image.apply(merged(batches[start : start + chunk]))
    assert image == ClusterImage.from_range(keyspace.range(keys.PREFIX))


@settings(deadline=None)
@given(transactions, st.data())
def test_listing_again_after_a_gap_gives_the_same_image_and_shares_what_is_the_same(
    steps: list[list[Operation]], data: st.DataObject
) -> None:
    keyspace, batches = history(steps)
    seen = data.draw(st.integers(0, len(batches)))
    before = ClusterImage.from_range(RangeResult((), 1))
    for batch in batches[:seen]:
        before = before.apply(batch)
    after = before.relisted(keyspace.range(keys.PREFIX))
    assert after == ClusterImage.from_range(keyspace.range(keys.PREFIX))
    for name, kept in after.topics.items():
        if before.mod_revision(keys.topic(name)) == after.mod_revision(keys.topic(name)):
            assert kept is before.topics[name]


@settings(deadline=None)
@given(transactions)
def test_an_image_never_changes_after_it_was_made(steps: list[list[Operation]]) -> None:
    image = ClusterImage()
    earlier: list[tuple[ClusterImage, str]] = []
    for batch in history(steps)[1]:
        earlier.append((image, repr(image)))
        image = image.apply(batch)
    assert all(repr(each) == printed for each, printed in earlier)


@settings(deadline=None)
@given(transactions)
def test_the_changes_between_two_images_are_what_differs(steps: list[list[Operation]]) -> None:
    _, batches = history(steps)
    half = ClusterImage()
    for batch in batches[: len(batches) // 2]:
        half = half.apply(batch)
    whole = half
    for batch in batches[len(batches) // 2 :]:
        whole = whole.apply(batch)
    rebuilt = {(id_, index): half.partition(id_, index) for id_ in IDS for index in range(5)}
    for change in whole.partition_changes_since(half):
        assert rebuilt[change.topic_id, change.index] is change.before
        rebuilt[change.topic_id, change.index] = change.after
    assert rebuilt == {(id_, index): whole.partition(id_, index) for id_ in IDS for index in range(5)}


def image_of(*writes: Put) -> ClusterImage:
    return ClusterImage.from_range(history([writes])[0].range(keys.PREFIX))


def test_an_image_answers_what_its_keys_say() -> None:
    image = image_of(
        put(keys.CLUSTER_ID, "abc"),
        put(keys.FEATURE_LEVEL, 3),
        put(keys.topic("t0"), topic(0)),
        put(keys.partition(IDS[0], 0), state()),
        put(keys.member("storage", 4), Member("storage", 4, 9, "h")),
        put(keys.config("broker", ""), ConfigOverrides({"a": "b"})),
        put(keys.client_quotas(QuotaEntity("u", "")), ClientQuotas({"request_percentage": 50.0})),
        put(keys.acl(acl("a/b")), AclRecord()),
        put(keys.node(4), NodeRecord(4)),
        put(keys.CONTROLLER, ElectedController(1, 2)),
    )
    assert (image.cluster_id, image.feature_level, image.revision) == ("abc", 3, 2)
    assert image.topics["t0"] is image.topics_by_id[IDS[0]]
    assert image.partition(IDS[0], 0) == state()
    assert image.members("storage")[4].incarnation == 9
    assert image.members("gateway") == {}
    assert image.overrides("broker", "") == {"a": "b"}
    assert image.overrides("topic", "t0") == {}
    assert image.client_quotas == {("u", "", None): {"request_percentage": 50.0}}
    assert list(image.acls) == [acl("a/b")]
    assert image.nodes == {4: NodeRecord(4)}
    assert image.controller == ElectedController(1, 2)


def test_partitions_are_as_many_as_the_topic_says_with_none_for_what_is_missing() -> None:
    image = image_of(put(keys.topic("t0"), topic(0, 3)), put(keys.partition(IDS[0], 1), state()))
    assert image.partitions_of(IDS[0]) == (None, state(), None)
    grown = image_of(put(keys.topic("t0"), topic(0, 1)), *[put(keys.partition(IDS[0], index), state()) for index in (0, 1)])
    assert grown.partitions_of(IDS[0]) == (state(),)
    assert grown.partition(IDS[0], 1) == state()
    assert grown.partitions_of(IDS[1]) == ()


def test_partitions_without_a_topic_are_known_as_uncommitted() -> None:
    image = image_of(put(keys.partition(IDS[0], 0), state()), put(keys.topic("t1"), topic(1)))
    assert image.uncommitted_topic_ids() == [IDS[0]]
    assert image.partitions_of(IDS[0]) == (state(),)


def test_a_topic_that_is_deleted_and_created_again_has_only_its_new_id() -> None:
    old = image_of(put(keys.topic("t0"), topic(0)))
    again = Topic("t0", IDS[2].hex(), 1)
    new = old.apply(WatchBatch((WatchEvent(keys.topic("t0"), None, 3), WatchEvent(keys.topic("t0"), encode(again), 4, 4)), 4))
    assert new.topics_by_id == {IDS[2]: again}
    replaced = old.apply(WatchBatch((WatchEvent(keys.topic("t0"), encode(again), 3, 2),), 3))
    assert replaced.topics_by_id == {IDS[2]: again}


def test_revisions_for_guards_are_kept_for_every_key_and_zero_for_none() -> None:
    keyspace, _ = history(
        [[put(keys.topic("t0"), topic(0)), put(keys.partition(IDS[0], 1), state())], [put(keys.PRODUCER_IDS, 5)]]
    )
    keyspace.write([put(keys.partition(IDS[0], 1), state(2))])
    image = ClusterImage.from_range(keyspace.range(keys.PREFIX))
    assert (image.create_revision(keys.partition(IDS[0], 1)), image.mod_revision(keys.partition(IDS[0], 1))) == (2, 4)
    assert (image.create_revision(keys.topic("t0")), image.mod_revision(keys.PRODUCER_IDS)) == (2, 3)
    assert image.mod_revision(keys.partition(IDS[0], 0)) == 0
    assert image.create_revision(keys.partition(IDS[1], 0)) == 0
    assert image.create_revision(keys.topic("nothing")) == 0


def test_events_that_were_seen_already_are_passed_over() -> None:
    image = image_of(put(keys.topic("t0"), topic(0)))
    assert image.apply(WatchBatch((WatchEvent(keys.topic("t0"), None, 2),), 2)) is image
    later = image.apply(WatchBatch((WatchEvent(keys.topic("t0"), None, 2),), 9))
    assert later.topics is image.topics
    assert later.revision == 9


def test_the_topics_revision_is_that_of_the_last_change_of_a_topic_and_of_nothing_else() -> None:
    keyspace, _ = history([[put(keys.topic("t0"), topic(0))], [put(keys.topic("t1"), topic(1))]])
    listed = keyspace.range(keys.PREFIX)
    keyspace.write([put(keys.partition(IDS[0], 0), state())])
    before = ClusterImage.from_range(keyspace.range(keys.PREFIX))
    assert (ClusterImage.from_range(listed).topics_revision, before.topics_revision, before.revision) == (3, 3, 4)
    grown = before.apply(WatchBatch((WatchEvent(keys.topic("t0"), encode(topic(0, 2)), 5, 2),), 5))
    assert grown.topics_revision == 5
    other = grown.apply(WatchBatch((WatchEvent(keys.node(1), encode(NodeRecord(1)), 6, 6),), 6))
    assert other.topics_revision == 5
    assert other.apply(WatchBatch((WatchEvent(keys.topic("t0"), None, 7),), 7)).topics_revision == 7


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (keys.topic("t0"), b"{}"),
        (keys.topic("t0"), encode(Topic("t0", "not hex", 1))),
        (keys.partition(IDS[0], 0), b"null"),
        (keys.PARTITIONS + "xyz/0", encode(state())),
        (keys.PARTITIONS + IDS[0].hex(), encode(state())),
        (keys.partition(IDS[0], -1), encode(state())),
        (keys.PARTITIONS + IDS[0].hex() + "/007", encode(state())),
        (keys.partition(IDS[0], 10**9), encode(state())),
        (keys.QUOTAS + "users/a%2fb", encode(ClientQuotas())),
        (keys.client_quotas(QuotaEntity("u")), b'{"values":{"producer_byte_rate":"1"}}'),
        (keys.MEMBERS + "storage/one", encode(Member("storage", 1, 1, "h"))),
    ],
)
def test_a_record_that_cannot_be_read_is_refused_by_the_name_of_its_key(key: str, value: bytes) -> None:
    with pytest.raises(RecordError, match=key):
        image_of(Put(key, value))


def test_quotas_that_did_not_change_are_shared() -> None:
    one, other = QuotaEntity("u"), QuotaEntity(client_id="c")
    before = image_of(
        put(keys.client_quotas(one), ClientQuotas({"k": 1.0})), put(keys.client_quotas(other), ClientQuotas({"k": 2.0}))
    )
    elsewhere = before.apply(WatchBatch((WatchEvent(keys.topic("t0"), encode(topic(0)), 5, 5),), 5))
    assert elsewhere.client_quotas is before.client_quotas
    after = elsewhere.apply(WatchBatch((WatchEvent(keys.client_quotas(one), None, 6),), 6))
    assert after.client_quotas == {other: {"k": 2.0}}
    assert after.client_quotas[other] is before.client_quotas[other]


def test_one_change_among_ten_thousand_partitions_is_cheap_and_shares_the_rest() -> None:
    ids = [number.to_bytes(16, "big") for number in range(1000)]
    writes = [put(keys.topic(f"n{number}"), Topic(f"n{number}", id_.hex(), 10)) for number, id_ in enumerate(ids)]
    writes += [put(keys.partition(id_, index), state()) for id_ in ids for index in range(10)]
    image = image_of(*writes)
    batch = WatchBatch((WatchEvent(keys.partition(ids[500], 3), encode(state(2)), 3, 2),), 3)
    best = 1.0
    for _ in range(5):
        begun = time.thread_time()
        after = image.apply(batch)
        changes = list(after.partition_changes_since(image))
        best = min(best, time.thread_time() - begun)
    assert changes == [PartitionChange(ids[500], 3, state(), state(2))]
    assert after.topics is image.topics
    assert all(after.partitions_of(id_) is image.partitions_of(id_) for id_ in ids if id_ != ids[500])
    assert best < 0.005
