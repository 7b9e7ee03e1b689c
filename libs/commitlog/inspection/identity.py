"""The identity that a directory claims: `partition.metadata` of a partition, `meta.properties` of a log directory."""

import base64
import binascii

from libs.commitlog.inspection.findings import Findings
from libs.commitlog.inspection.reading import ReadOnlyFiles, read_whole
from libs.commitlog.partition_log.directory import parse_metadata


def read_topic_id(files: ReadOnlyFiles, path: str, findings: Findings) -> bytes | None:
    """The topic id of a partition. None if the file is missing or damaged, which is reported."""
    file = f"{path}/partition.metadata"
    content = read_whole(files, file, findings)
    if content is None:
        findings.problem(file, None, "is missing or unreadable: if missing, what is here is taken for the partition of that name")
        return None
    fields, is_as_written = parse_metadata(content)
    topic_id = _parse_id(fields.get("topic_id", ""))
    if fields.get("version") != "0" or topic_id is None:
        findings.problem(file, 0, f"should have `version: 0` and `topic_id: …`, and has {content[:80]!r}")
    elif not is_as_written:
        findings.problem(file, 0, f"was changed, its checksum says: {content[:80]!r}")
    return topic_id


def read_properties(files: ReadOnlyFiles, path: str, findings: Findings) -> dict[str, str]:
    """The `meta.properties` of a log directory, as far as they can be read."""
    file = f"{path}/meta.properties"
    content = read_whole(files, file, findings)
    if content is None:
        findings.problem(file, None, "is missing or unreadable: the next start would take the directory for a new disk")
        return {}
    properties: dict[str, str] = {}
    position = 0
    for raw in content.split(b"\n"):
        line = raw.decode(errors="replace").strip()
        name, equals, value = line.partition("=")
        if line and not line.startswith("#"):
            if not equals:
                findings.problem(file, position, f"is not a properties file: {line[:80]!r}")
            properties[name.strip()] = value.strip()
        position += len(raw) + 1
    if properties.get("version") != "1":
        findings.problem(file, None, f"has version {properties.get('version')!r}, not '1'")
    if not properties.get("node.id", "").isdigit():
        findings.problem(file, None, f"has node.id {properties.get('node.id')!r}, not a number")
    if _parse_id(properties.get("directory.id", "")) is None:
        findings.problem(file, None, f"has directory.id {properties.get('directory.id')!r}, which is no id")
    return properties


def _parse_id(text: str) -> bytes | None:
    try:
        identity = base64.b64decode(text.strip() + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return identity if len(identity) == 16 else None
