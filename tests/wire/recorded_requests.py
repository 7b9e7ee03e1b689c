"""The requests that clients really sent (`record_clients.py`)."""

from collections.abc import Iterator
from pathlib import Path

RECORDED = Path(__file__).parent / "recorded"
CLIENTS = ("aiokafka", "java", "librdkafka")


def frames_of(client: str) -> Iterator[bytes]:
    """Each recorded frame, without its length."""
    content = (RECORDED / f"{client}.bin").read_bytes()
    position = 0
    while position < len(content):
        end = position + 4 + int.from_bytes(content[position : position + 4], "big")
        yield content[position + 4 : end]
        position = end
