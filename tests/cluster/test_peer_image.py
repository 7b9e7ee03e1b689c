"""An image goes over the wire as it is."""

import pytest

from libs.cluster import keys
from libs.cluster.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from libs.cluster.codec import RecordError, encode
from libs.cluster.image import ClusterImage
from libs.cluster.peer_image import image_of, lines_of
from libs.cluster.records import (
    CONTROLLER,
    STORAGE,
    AclRecord,
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
from libs.cluster.store import KeyValue, RangeResult

TOPIC_ID = bytes(range(16))
ACL = AclBinding(
    ResourceType.GROUP,
    PatternType.PREFIXED,
    "a group\twith / and ünicode",
    "User:a%2Fb",
    "*",
    AclOperation.READ,
    AclPermission.ALLOW,
)


def listed(*items: tuple[str, bytes], revision: int = 90) -> ClusterImage:
    values = [KeyValue(key, value, 10 + at, 40 + at, 7) for at, (key, value) in enumerate(items)]
    return ClusterImage.from_range(RangeResult(tuple(values), revision))


def full() -> ClusterImage:
    state = PartitionState(
        (Replica(1, "aa"), Replica(2, "")), 1, 77, 3, 5, (InSync(1, 77),), adding=(2,), withdrawn=(InSync(2, 9),)
    )
    member = Member(
        STORAGE, 1, 77, "host", "tcp:h:1", "unix:/s", "rack\t1", ("aa",), {"a": "b\n"}, (Listener("L", "h", 9),), "1", 2
    )
    return listed(
        (keys.CLUSTER_ID, encode("the-cluster")),
        (keys.FEATURE_LEVEL, encode(3)),
        (keys.feature("transaction.version"), encode(1)),
        (keys.CONTROLLER, encode(ElectedController(2, 5))),
        (keys.member(STORAGE, 1), encode(member)),
        (keys.member(CONTROLLER, 2), encode(Member(CONTROLLER, 2, 5, "host"))),
        (keys.node(1), encode(NodeRecord(1, ("aa",), "rack"))),
        (keys.config("topic", "t"), encode(ConfigOverrides({"retention.ms": "1"}))),
        (keys.config("group", "a group\twith / and ünicode"), encode(ConfigOverrides({"x": "ü"}))),
        (keys.client_quotas(QuotaEntity("a user\twith / and ünicode", "")), encode(ClientQuotas({"producer_byte_rate": 1024.0}))),
        (keys.client_quotas(QuotaEntity(ip="::1")), encode(ClientQuotas({"connection_creation_rate": 0.1}))),
        (keys.acl(ACL), encode(AclRecord())),
        (keys.partition(TOPIC_ID, 0), encode(state)),
        (keys.partition(TOPIC_ID, 2), encode(state)),
        (keys.topic("t"), encode(Topic("t", TOPIC_ID.hex(), 3))),
    )


def test_an_image_comes_back_whole_with_its_revisions() -> None:
    image = full()
    assert image_of(b"".join(lines_of(image)), image.revision) == image


def test_keys_that_only_their_owner_reads_are_not_lent() -> None:
    image = listed((keys.CLUSTER_ID, encode("c")), (keys.PRODUCER_IDS, encode(5000)))
    lent = image_of(b"".join(lines_of(image)), image.revision)
    assert (lent.revision, lent.cluster_id, list(lent.keys())) == (90, "c", [keys.CLUSTER_ID])


@pytest.mark.parametrize(
    "damaged",
    [
        b"\x00\xff",
        b'1\t2\t"/penstock/cluster_id"\n',
        b'1\tx\t"/penstock/cluster_id"\t"c"\n',
        b'1\t2\t3\t"c"\n',
        b'1\t2\t"/penstock/cluster_id"\t{\n',
        b'1\t2\t"/penstock/members/storage/x"\t{}\n',
    ],
)
def test_bytes_that_are_no_image_are_refused(damaged: bytes) -> None:
    with pytest.raises(RecordError):
        image_of(damaged, 5)
