"""Files of saved metadata: they come back whole, damage is refused, and of two the newer one is known."""

import json
import zlib

import pytest

from libs.cluster import keys
from libs.cluster.codec import RecordError, encode
from libs.cluster.image import ClusterImage
from libs.cluster.peer_image import lasting_lines_of
from libs.cluster.records import (
    STORAGE,
    ClientQuotas,
    ConfigOverrides,
    ElectedController,
    HistoryEntry,
    Member,
    MetadataHistory,
    NodeRecord,
    PartitionState,
    QuotaEntity,
    Replica,
    Topic,
)
from libs.cluster.saved_metadata import SavedMetadata, backup_of, file_of, is_newer, parse_file
from libs.cluster.store import KeyValue, RangeResult

TOPIC_ID = bytes(range(16))
STATE = PartitionState((Replica(1, "aa"),), 1, 77, 3, 5, ())
LASTING = {
    keys.CLUSTER_ID: encode("the-cluster"),
    keys.config("topic", "t"): encode(ConfigOverrides({"retention.ms": "1"})),
    keys.config("group", "a group\twith / and ünicode"): encode(ConfigOverrides({"x": "ü"})),
    keys.client_quotas(QuotaEntity("a/b", "")): encode(ClientQuotas({"producer_byte_rate": 1024.0})),
    keys.FEATURE_LEVEL: encode(3),
    keys.feature("transaction.version"): encode(1),
    keys.HISTORY: encode(MetadataHistory((HistoryEntry(8, 50),), (4,))),
    keys.node(1): encode(NodeRecord(1, ("aa",), "rack")),
    keys.partition(TOPIC_ID, 0): encode(STATE),
    keys.PRODUCER_IDS: encode(5000),
    keys.topic("t"): encode(Topic("t", TOPIC_ID.hex(), 1)),
}
LEASED = {
    keys.CONTROLLER: encode(ElectedController(2, 5)),
    keys.member(STORAGE, 1): encode(Member(STORAGE, 1, 77, "host")),
}
LATER = {keys.PREFIX + "later/a/b": b'{"of":"a later version"}'}


def listed(values: dict[str, bytes], revision: int = 90) -> RangeResult:
    items = [KeyValue(key, values[key], 10, 40, 7 if key in LEASED else 0) for key in sorted(values)]
    return RangeResult(tuple(items), revision)


def saved(revision: int, saved_ms: int, *nonces: int, lost: tuple[int, ...] = ()) -> SavedMetadata:
    history = MetadataHistory(tuple([HistoryEntry(nonce, 1) for nonce in nonces]), lost)
    values = {keys.CLUSTER_ID: encode("c"), keys.HISTORY: encode(history)}
    return parse_file(backup_of(listed(values, revision), saved_ms))


def test_a_backup_has_all_but_what_lives_under_a_lease_also_what_only_a_later_version_knows() -> None:
    found = parse_file(backup_of(listed(LASTING | LEASED | LATER), 1234))
    assert {item.key: item.value for item in found.items} == LASTING | LATER
    assert (found.saved_ms, found.image.revision, found.image.cluster_id) == (1234, 90, "the-cluster")


def test_a_saved_image_has_what_a_backup_has() -> None:
    image = ClusterImage.from_range(listed(LASTING | LEASED))
    found = parse_file(file_of(image.cluster_id, image.revision, 1234, lasting_lines_of(image)))
    assert {item.key: item.value for item in found.items} == LASTING
    assert found.image.next_producer_id == 5000
    assert found.image.members(STORAGE) == {}


def test_every_cut_and_every_changed_byte_is_refused() -> None:
    content = backup_of(listed(LASTING), 1234)
    for size in range(len(content) - 1):
        with pytest.raises(RecordError, match="checksum"):
            parse_file(content[:size])
    for at in range(0, content.rindex(b"{"), 7):
        with pytest.raises(RecordError, match="checksum"):
            parse_file(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])


def test_fields_of_later_versions_are_passed_over_and_a_later_format_is_refused() -> None:
    lines = backup_of(listed(LASTING), 1234).split(b"\n")[:-2]
    head = json.loads(lines[0])
    extended = [json.dumps(head | {"more": 1}).encode(), *[line + b"\tmore" for line in lines[1:]]]
    assert {item.key: item.value for item in parse_file(sealed(extended)).items} == LASTING
    with pytest.raises(RecordError, match="version 2"):
        parse_file(sealed([json.dumps(head | {"version": 2}).encode(), *lines[1:]]))
    with pytest.raises(RecordError, match="not a file of Penstock's metadata"):
        parse_file(sealed([b'{"version": 1}']))


def sealed(lines: list[bytes]) -> bytes:
    body = b"".join([line + b"\n" for line in lines])
    return body + json.dumps({"crc32": zlib.crc32(body)}).encode() + b"\n"


def test_of_two_files_of_one_history_the_one_with_the_higher_revision_is_newer() -> None:
    assert is_newer(saved(60, 1, 1, 2), saved(50, 2, 1, 2))
    assert not is_newer(saved(50, 2, 1, 2), saved(60, 1, 1, 2))
    assert is_newer(saved(60, 1, 1, 2, 3), saved(50, 2, 1, 2))


def test_a_file_of_a_store_that_was_written_anew_is_newer_though_its_revisions_began_again() -> None:
    former = saved(5000, 2, 1, 2, 3)
    rebuilt = saved(7, 1, 1, 2, 3, 4)
    assert is_newer(rebuilt, former)
    assert not is_newer(former, rebuilt)
    from_an_older_backup = saved(7, 1, 1, 2, 9, lost=(3,))
    assert is_newer(from_an_older_backup, former)
    assert not is_newer(former, from_an_older_backup)


def test_where_neither_file_knows_the_others_history_the_clock_decides() -> None:
    assert is_newer(saved(7, 2, 1, 9), saved(5000, 1, 1, 2, 3))
    assert not is_newer(saved(5000, 1, 1, 2, 3), saved(7, 2, 1, 9))
