"""One or two records of each kind, with every field set somewhere and left out somewhere; and the bytes of any."""

from services.group_coordinator.core.model.records import (
    ClassicGroupChanged,
    ClassicGroupRemoved,
    ClassicMember,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupChanged,
    ConsumerGroupRemoved,
    ConsumerMemberChanged,
    ConsumerMemberRemoved,
    ConsumerTopicsRemoved,
    ConsumerTopicsSeen,
    CurrentAssignmentChanged,
    CurrentAssignmentRemoved,
    MemberState,
    OffsetCommitted,
    OffsetRemoved,
    Record,
    RegularExpressionRemoved,
    RegularExpressionResolved,
    TargetAssignmentChanged,
    TargetAssignmentRemoved,
    TargetEpochChanged,
    TargetEpochRemoved,
    TopicPartitions,
    TopicSeen,
)
from services.group_coordinator.core.record_formats.record_codec import encode

TOPIC_ID = bytes(range(16))
PARTITIONS = (TopicPartitions(TOPIC_ID, (0, 2)),)
CLASSIC_MEMBER = ClassicMember("m-1", "i-1", "client", "/127.0.0.1", 300000, 45000, b"\0\1", b"\0\2")
NEWCOMER = ClassicMember("m-2", None, "", "/::1", 60000, 10000, b"", b"")
SPEAKS_CLASSIC = ClassicMemberMetadata(45000, (ClassicProtocol("range", b"\0\1"),))

SAMPLES: tuple[Record, ...] = (
    OffsetCommitted("g", "t", 3, 1000, 7, "note", 1700000000000, topic_id=TOPIC_ID),
    OffsetCommitted("g", "t", 4, 0, commit_ms=1700000000000),
    OffsetCommitted("g", "t", 5, 12, -1, "note", 1700000000000, expire_ms=1700000009999),
    OffsetRemoved("g", "t", 3),
    ClassicGroupChanged("g", "consumer", 5, "range", "m-1", 1700000000000, (CLASSIC_MEMBER, NEWCOMER)),
    ClassicGroupChanged("g", "", 0, None, None, -1, ()),
    ClassicGroupRemoved("g"),
    ConsumerGroupChanged("k", 9, 123456789012345678),
    ConsumerGroupChanged("k", 10),
    ConsumerGroupRemoved("k"),
    ConsumerTopicsSeen("k", (TopicSeen(TOPIC_ID, "t", 2, ((0, ("a", "b")), (1, ()))),)),
    ConsumerTopicsRemoved("k"),
    ConsumerMemberChanged("k", "m", "i", "rack", "client", "/::1", ("t", "u"), "t.*", 300000, "uniform", SPEAKS_CLASSIC),
    ConsumerMemberChanged("k", "m", None, None, "", "", (), None, -1, None),
    ConsumerMemberRemoved("k", "m"),
    TargetEpochChanged("k", 9),
    TargetEpochRemoved("k"),
    TargetAssignmentChanged("k", "m", PARTITIONS),
    TargetAssignmentRemoved("k", "m"),
    CurrentAssignmentChanged("k", "m", 9, 8, MemberState.UNREVOKED_PARTITIONS, PARTITIONS, (TopicPartitions(TOPIC_ID, (1,)),)),
    CurrentAssignmentRemoved("k", "m"),
    RegularExpressionResolved("k", "t.*", ("t", "t2"), 11, 1700000000000),
    RegularExpressionRemoved("k", "t.*"),
)


def written(record: Record) -> tuple[bytes, bytes | None]:
    entry = encode(record)
    assert entry is not None
    return entry
