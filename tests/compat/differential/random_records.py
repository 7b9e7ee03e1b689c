"""Batches of a few records with a few bytes changed: what a fuzzer would send, the same in every run."""

import random
from collections.abc import Callable

from tests.compat.differential.batches import batch, varint

SEED = 20


def random_batches(count: int, codec: int = 0, compress: Callable[[bytes], bytes] = bytes) -> list[bytes]:
    """Their CRCs are right: only who opens them finds out."""
    chance = random.Random(SEED)
    return [_batch(chance, codec, compress) for _ in range(count)]


def _batch(chance: random.Random, codec: int, compress: Callable[[bytes], bytes]) -> bytes:
    count = chance.choice([1, 2, 3])
    body = bytearray(b"".join(_record(chance, index) for index in range(count)))
    for _ in range(chance.choice([0, 1, 1, 1, 2])):
        at = chance.randrange(len(body))
        match chance.choice(["change", "change", "change", "remove", "insert"]):
            case "change":
                body[at] = chance.choice([0, 1, 2, 3, 4, 5, 0x7E, 0x80, 0xFF, chance.randrange(256)])
            case "remove":
                del body[at]
            case "insert":
                body[at:at] = bytes([chance.randrange(256)])
    return batch((b"x",) * count, attributes=codec, records=compress(bytes(body)))


def _record(chance: random.Random, index: int) -> bytes:
    body = b"\0" + varint(chance.choice([0, 0, 5, -3, 70, 300])) + varint(index)
    for _ in ("key", "value"):
        size = chance.choice([-1, 0, 1, 3, 70])
        body += varint(size) + bytes(max(0, size))
    headers = chance.choice([0, 0, 1, 2])
    body += varint(headers)
    for _ in range(headers):
        body += varint(2) + b"hh" + (varint(-1) if chance.random() < 0.5 else varint(1) + b"x")
    return varint(len(body)) + body
