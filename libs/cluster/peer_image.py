"""A cluster image as bytes, for a process that starts while the metadata store is away. Pure.

One line per key: `created <tab> modified <tab> key as JSON <tab> value as in the store`. Values that this version cannot read are
left out, and so are those that only their owner reads. A process that borrowed an image reads all of it again from the store.

Saved metadata has the same lines (`saved_metadata.py`).
"""

import json
from collections.abc import Iterator

from libs.cluster import keys
from libs.cluster.codec import RecordError, encode
from libs.cluster.image import ClusterImage
from libs.cluster.records import AclRecord, ClientQuotas, ConfigOverrides
from libs.cluster.store import KeyValue, RangeResult


def lines_of(image: ClusterImage) -> Iterator[bytes]:
    """The lines of an image. Each costs about 50 µs: give other work a turn now and then."""
    for key, record in _records(image):
        yield _line(image, key, record)


def lasting_lines_of(image: ClusterImage) -> Iterator[bytes]:
    """The lines of what outlives the processes: all but members and the elected controller. The history and the next producer id,
    which peers do not need, are among them."""
    for key, record in _lasting_records(image):
        yield _line(image, key, record)
    yield _line(image, keys.HISTORY, image.history)
    yield _line(image, keys.PRODUCER_IDS, image.next_producer_id)


def line_of(item: KeyValue) -> bytes:
    """Raises RecordError for a value that no line can hold."""
    if b"\n" in item.value or b"\t" in item.value:
        raise RecordError(f"{item.key}: its value is no line of text")
    head = f"{item.create_revision}\t{item.mod_revision}\t{json.dumps(item.key)}\t"
    return head.encode() + item.value + b"\n"


def item_of(line: bytes) -> KeyValue:
    """The key of a line. Fields after its value belong to later versions. Raises RecordError."""
    try:
        created, modified, name, value, *_ = line.split(b"\t")
        key = json.loads(name)
        if not isinstance(key, str):
            raise ValueError("a key is a string")
        return KeyValue(key, value, int(created), int(modified), 0)
    except ValueError as error:
        raise RecordError(f"not a line of an image: {error}") from None


def image_of(payload: bytes, revision: int) -> ClusterImage:
    """Raises RecordError."""
    items = tuple([item_of(line) for line in payload.split(b"\n") if line])
    return ClusterImage.from_range(RangeResult(items, revision))


def _records(image: ClusterImage) -> Iterator[tuple[str, object]]:
    if image.controller is not None:
        yield keys.CONTROLLER, image.controller
    for role, members in image.members_by_role.items():
        for node_id, member in members.items():
            yield keys.member(role, node_id), member
    yield from _lasting_records(image)


def _lasting_records(image: ClusterImage) -> Iterator[tuple[str, object]]:
    yield keys.CLUSTER_ID, image.cluster_id
    if image.mod_revision(keys.FEATURE_LEVEL):
        yield keys.FEATURE_LEVEL, image.feature_level
    for name, level in image.finalized_features.items():
        yield keys.feature(name), level
    for node_id, node in image.nodes.items():
        yield keys.node(node_id), node
    for (kind, name), values in image.overrides_by_resource.items():
        yield keys.config(kind, name), ConfigOverrides(dict(values))
    for entity, quotas in image.client_quotas.items():
        yield keys.client_quotas(entity), ClientQuotas(dict(quotas))
    for binding in image.acls:
        yield keys.acl(binding), AclRecord()
    for key in image.unknown_acls:
        yield key, AclRecord()
    for topic_id, partitions in image.partition_table.items():
        for index, state in enumerate(partitions.states):
            if state is not None:
                yield keys.partition(topic_id, index), state
    for name, topic in image.topics.items():
        yield keys.topic(name), topic


def _line(image: ClusterImage, key: str, record: object) -> bytes:
    return line_of(KeyValue(key, encode(record), image.create_revision(key), image.mod_revision(key), 0))
