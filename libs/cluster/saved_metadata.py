"""The metadata as a file: a backup of the store, and what each storage node keeps of the cluster image. Pure.

The first line is a JSON object: the version of the format, the cluster, the revision, and when the file was made. A line for each
key follows, as in `peer_image.py`. The last line has a CRC-32 of all bytes before it. What lives under a lease is left out, since
it belongs to a process. Readers pass over fields that they do not know, and refuse a higher version.
"""

import json
import zlib
from collections.abc import Iterable

from libs.cluster.codec import RecordError
from libs.cluster.image import ClusterImage
from libs.cluster.metadata_history import lost_nonces, mark_of
from libs.cluster.peer_image import item_of, line_of
from libs.cluster.store import KeyValue, RangeResult
from libs.lean_dataclass import dataclass

FORMAT = "penstock metadata"
VERSION = 1
IMAGE_FILE = "cluster-image"
"""The name of a storage node's copy, in its data directory."""


@dataclass(frozen=True, slots=True)
class SavedMetadata:
    """The content of a file, also as an image. `saved_ms`: when it was made, by the wall clock of whoever made it."""

    items: tuple[KeyValue, ...]
    image: ClusterImage
    saved_ms: int


def backup_of(listed: RangeResult, saved_ms: int) -> bytes:
    """The file of a whole store. Keys of later versions are kept as they are. Raises RecordError for values that an image does
    not take."""
    lasting = tuple([item for item in listed.items if not item.lease])
    cluster_id = ClusterImage.from_range(RangeResult(lasting, listed.revision)).cluster_id
    return file_of(cluster_id, listed.revision, saved_ms, map(line_of, lasting))


def file_of(cluster_id: str, revision: int, saved_ms: int, lines: Iterable[bytes]) -> bytes:
    head = {"format": FORMAT, "version": VERSION, "cluster_id": cluster_id, "revision": revision, "saved_ms": saved_ms}
    content = b"".join([json.dumps(head).encode() + b"\n", *lines])
    return content + json.dumps({"crc32": zlib.crc32(content)}).encode() + b"\n"


def parse_file(content: bytes) -> SavedMetadata:
    """Raises RecordError, which says what is wrong with the file."""
    start = content.rfind(b"\n", 0, -1) + 1
    body, tail = content[:start], _json_object(content[start:])
    if tail.get("crc32") != zlib.crc32(body):
        raise RecordError("it was cut short or changed: its checksum does not match")
    lines = body.split(b"\n")[:-1]
    head = _json_object(lines[0] if lines else b"")
    revision, saved_ms = head.get("revision"), head.get("saved_ms")
    if head.get("format") != FORMAT:
        raise RecordError("it is not a file of Penstock's metadata")
    version = head.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise RecordError(f"it has version {version} of the format, and this program reads up to {VERSION}")
    if not isinstance(revision, int) or not isinstance(saved_ms, int):
        raise RecordError("its first line lacks the revision or the time")
    items = tuple([item_of(line) for line in lines[1:]])
    return SavedMetadata(items, ClusterImage.from_range(RangeResult(items, revision)), saved_ms)


def is_newer(saved: SavedMetadata, other: SavedMetadata) -> bool:
    """Whether `saved` shows a later state of the cluster than `other`.

    Revisions do not tell, where the store was restored in between: they begin again. A later file knows the history of an
    earlier one. Where neither knows the other's, the clock decides.
    """
    knows, is_known = _knows(saved.image, other.image), _knows(other.image, saved.image)
    if knows != is_known:
        return knows
    if knows:
        return (saved.image.revision, saved.saved_ms) > (other.image.revision, other.saved_ms)
    return saved.saved_ms > other.saved_ms


def _knows(image: ClusterImage, earlier: ClusterImage) -> bool:
    """Whether a store that holds `image` has been through `earlier`, or a controller has answered that it has not."""
    lost = lost_nonces(image, mark_of(earlier))
    return not lost or not set(lost).isdisjoint(image.history.lost)


def _json_object(line: bytes) -> dict[str, object]:
    try:
        plain = json.loads(line)
    except ValueError:
        return {}
    return plain if isinstance(plain, dict) else {}
