"""Inputs of docs/bad-inputs.md that cost the gateway memory or CPU, beside a client that keeps to the protocol.

It produces and fetches all the while. What it notices is measured as the CPU that the process takes between its question and
its answer, so that a busy machine changes nothing. `tests/system/faults/test_hostile_connections.py` has those that break frames.
"""

import socket
import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import pytest
from crc32c import crc32c

from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batches import CRC_START, HEADER, LENGTH_END, BatchHeader
from libs.wire.record_batches.compression import DECOMPRESSED_BYTES_MAX
from libs.wire.record_batches.records import Record, build_batch
from tests.dev.bounds.connection import Connection, errors_in
from tests.dev.bounds.requests import plausible
from tests.dev.bounds.schema_codec import Value
from tests.fuzz.live.attacked_cluster import MECHANISM, AttackedCluster, AttackedClusters
from tests.fuzz.live.mutations import body_of, frame
from tests.support.polling import rounds

CPU_S_MAX: Final = 0.25
"""Between a question and its answer: ten times what was measured. A round without an attack takes some milliseconds."""
BOMBS: Final = {"lz4": 3, "zstd": 4}
"""Codecs by number. `tests/wire/test_opened_batches.py` has all of them; those of gzip take a second to make."""
PLAIN, SASL = "plain", "sasl"
OPENED = "opened"
"""A topic whose batches are opened as they come."""

Frames = Callable[[AttackedCluster], bytes]


class Harm(NamedTuple):
    """What each of some connections to a listener sends."""

    listener: str
    connections: int
    frames: Frames
    answered: tuple[ApiKey, int] | None = None
    """What is answered. None: the connection ends, or goes on without an error."""
    error: ErrorCode = ErrorCode.NONE


def produce(records: bytes) -> Frames:
    def made(cluster: AttackedCluster) -> bytes:
        request = plausible(ApiKey.PRODUCE, 13, cluster.known)
        request["topic_data"][0].update(topic_id=cluster.create_once(OPENED, record_validation="full"))
        request["topic_data"][0]["partition_data"][0]["records"] = records
        return frame(ApiKey.PRODUCE, 13, body_of(ApiKey.PRODUCE, 13, request), 1)

    return made


def bomb(codec: int) -> Frames:
    """A batch of some hundred kilobytes that is longer than may be when it is decompressed. It is made when it is asked for."""
    return lambda cluster: produce(bytes(build_batch([Record(None, bytes(DECOMPRESSED_BYTES_MAX + 1), 1_000)], codec=codec)))(
        cluster
    )


def mended(batch: bytearray, **changes: int) -> bytes:
    """The batch with these fields, its length and its CRC put right."""
    header = BatchHeader.at(batch)._replace(batch_length=len(batch) - LENGTH_END, **changes)
    HEADER.pack_into(batch, 0, *header)
    HEADER.pack_into(batch, 0, *header._replace(crc=crc32c(memoryview(batch)[CRC_START:])))
    return bytes(batch)


def asked(api_key: ApiKey, version: int, change: Callable[[Value], None] = lambda _: None, times: int = 1) -> Frames:
    def made(cluster: AttackedCluster) -> bytes:
        request = plausible(api_key, version, cluster.known)
        change(request)
        return frame(api_key, version, body_of(api_key, version, request), 1) * times

    return made


def many_partitions(request: Value) -> None:
    (topic,) = request["topics"]
    topic["num_partitions" if "num_partitions" in topic else "count"] = 1_000_000_000
    topic["assignments"] = [] if "num_partitions" in topic else None


def many_iterations(request: Value) -> None:
    request["deletions"] = []
    request["upsertions"][0]["iterations"] = 0x7FFF_FFFF


def with_client_id(cluster: AttackedCluster) -> bytes:
    name = b"\x1b[2J\n" * 6_553
    content = struct.pack(">hhih", ApiKey.API_VERSIONS, 0, 1, len(name)) + name
    return (struct.pack(">i", len(content)) + content) * 100


def login(cluster: AttackedCluster) -> bytes:
    """A handshake, a name, and a proof of nothing."""
    mechanism = asked(ApiKey.SASL_HANDSHAKE, 1, lambda request: request.update(mechanism=MECHANISM))
    first = asked(ApiKey.SASL_AUTHENTICATE, 2, lambda request: request.update(auth_bytes=b"n,,n=alice,r=nonce"))
    proof = asked(ApiKey.SASL_AUTHENTICATE, 2, lambda request: request.update(auth_bytes=b"c=biws,r=nonce,p=AAAA"))
    return mechanism(cluster) + first(cluster) + proof(cluster)


def counted(cluster: AttackedCluster) -> bytes:
    """One record in a batch that says it has two billion."""
    batch = build_batch([Record(None, b"x", 1_000)])
    return produce(mended(batch, last_offset_delta=0x7FFF_FFFE, record_count=0x7FFF_FFFF))(cluster)


_PRODUCED = (ApiKey.PRODUCE, 13)
_MADE = (ApiKey.CREATE_TOPICS, 7)
_MADE_MORE = (ApiKey.CREATE_PARTITIONS, 3)
_USERS = (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0)
HARMS: Final[dict[str, Harm]] = {
    **{f"a bomb of {name}": Harm(PLAIN, 4, bomb(codec), _PRODUCED, ErrorCode.MESSAGE_TOO_LARGE) for name, codec in BOMBS.items()},
    "two billion records": Harm(PLAIN, 20, counted, _PRODUCED, ErrorCode.INVALID_RECORD),
    "a thousand million partitions": Harm(PLAIN, 20, asked(*_MADE, many_partitions), _MADE, ErrorCode.POLICY_VIOLATION),
    "as many more": Harm(PLAIN, 20, asked(*_MADE_MORE, many_partitions), _MADE_MORE, ErrorCode.POLICY_VIOLATION),
    "logins of minutes": Harm(PLAIN, 20, asked(*_USERS, many_iterations), _USERS, ErrorCode.UNACCEPTABLE_CREDENTIAL),
    "long client ids": Harm(PLAIN, 20, with_client_id),
    "long frames before authentication": Harm(SASL, 100, lambda _: struct.pack(">i", 100 << 20) + bytes(1_000)),
    "requests before authentication": Harm(SASL, 100, asked(ApiKey.METADATA, 9, times=100)),
    "wrong passwords": Harm(SASL, 20, login),
}


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedClusters]:
    with AttackedClusters(tmp_path_factory.mktemp("harmed"), seconds_max=600) as clusters:
        yield clusters


@pytest.mark.parametrize("name", HARMS)
def test_a_client_beside_it_is_answered_as_soon_as_ever(clusters: AttackedClusters, name: str) -> None:
    """Every other harm is done to a node, whose log shares a process with the gateway."""
    harm = HARMS[name]
    cluster = clusters.of(node=list(HARMS).index(name) % 2 == 1)
    sent = harm.frames(cluster)
    host, port = cluster.plain if harm.listener == PLAIN else cluster.sasl
    attackers = {socket.create_connection((host, port), timeout=30) for _ in range(harm.connections)}
    worst = 0.0
    for attacker in attackers:
        before = cluster.cpu_s()
        try:
            attacker.sendall(sent)
        except ConnectionError:  # it was closed at the first bytes
            pass
        cluster.calm_round()
        worst = max(worst, cluster.cpu_s() - before)
    for _ in rounds(f"answers to {name}"):
        before = cluster.cpu_s()
        cluster.calm_round()
        worst = max(worst, cluster.cpu_s() - before)
        attackers -= {attacker for attacker in attackers if was_heard(attacker)}
        if not attackers:
            break
    assert worst <= CPU_S_MAX
    cluster.check()
    if harm.answered is not None:
        check_answer(Connection(host, port), sent, *harm.answered, harm.error)


def check_answer(connection: Connection, sent: bytes, api_key: ApiKey, version: int, error: ErrorCode) -> None:
    """The same input is answered as the page says: it got as far as the code that must withstand it."""
    connection.send_frame(sent)
    errors = {code for _, code in errors_in(connection.receive(api_key, version))}
    connection.close()
    assert error in errors


def was_heard(attacker: socket.socket) -> bool:
    """Whether the gateway has answered, or ended the connection."""
    attacker.setblocking(False)
    try:
        attacker.recv(65_536)
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    attacker.close()
    return True
