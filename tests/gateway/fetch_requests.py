"""Fetches of one partition, and what a node answers them with."""

import os
from pathlib import Path

from tests.gateway.conftest import TOPIC, TOPIC_ID, Rig

VERSIONS = range(4, 19)


def name_of(version: int) -> str | bytes:
    return TOPIC_ID if version >= 13 else TOPIC


def with_file(rig: Rig, size: int) -> bytes:
    """Lets node 1 answer fetches with a file of so many bytes."""
    content = os.urandom(size)
    path = rig.directory / "00000000000000000000.log"
    Path(path).write_bytes(content)
    rig.nodes[1].file = path
    return content
