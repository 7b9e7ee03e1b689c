"""Hostile connections lose themselves, and nothing else: a producer next to hundreds of them goes on as if they were not there.

The rows are those of the table of bad inputs. Half of the tests run against a gateway, and half against a node, where a hostile
client shares a process with a log.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from services.local.cluster_plan import ProcessPlan
from services.local.cluster_shape import NODE_ROLES, SERVICE_ROLES
from tests.compat.clients.admin import Admin
from tests.gateway.kafka_client import API_VERSIONS, FETCH, METADATA, PRODUCE, fetch_body, frame, produce_body
from tests.support.cluster_harness import LocalCluster
from tests.system.faults.hostile_sockets import Attack, Trickle
from tests.system.faults.produce_run import ProduceRun, Tail

MIB = 1 << 20
MEMORY_MAX = 150 * MIB
SETTINGS = {
    "PENSTOCK_HALF_FRAME_S_MAX": "1",
    "PENSTOCK_UNREAD_ANSWERS_S_MAX": "1",
    "PENSTOCK_QUEUED_REQUEST_BYTES_MAX": str(32 * MIB),
}


def sized(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def header(api_key: int, version: int, *, tags: bytes = b"\0") -> bytes:
    return struct.pack(">hhih", api_key, version, 1, 4) + b"evil" + tags


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


REFUSED: dict[str, bytes] = {
    # 1: lengths
    "negative length": struct.pack(">i", -1),
    "huge length": struct.pack(">i", 0x7FFFFFFF),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    # 3: what is not served
    "unknown api": frame(999, 0, 1, b""),
    "negative api": frame(-5, 0, 1, b""),
    "Metadata from the future": frame(METADATA, 99, 1, b""),
    "Produce from the past": frame(PRODUCE, 2, 1, produce_body(3, [])),
    "Fetch from the past": frame(FETCH, 3, 1, b""),
    # 6: counts beyond the bytes that are there
    "two billion topics": frame(METADATA, 1, 1, struct.pack(">i", 0x7FFFFFFF)),
    "two billion compact topics": frame(METADATA, 9, 1, varint(0x7FFFFFFF)),
    "two billion produced topics": frame(PRODUCE, 3, 1, struct.pack(">hhii", -1, 1, 1000, 0x7FFFFFFF)),
    "records longer than the frame": frame(
        PRODUCE, 3, 1, struct.pack(">hhii", -1, 1, 1000, 1) + struct.pack(">h1siii", 1, b"t", 1, 0, 0x7FFFFFFF)
    ),
    # 7: tagged fields
    "millions of tagged fields, claimed": sized(header(API_VERSIONS, 3, tags=varint(50_000_000))),
    "a hundred tagged fields": sized(
        header(METADATA, 9, tags=varint(100) + b"".join(varint(tag) + varint(1) + b"x" for tag in range(100))) + b"\1\1\0\0"
    ),
    "millions of tagged fields, sent": sized(
        header(API_VERSIONS, 3, tags=varint(1_000_000) + b"".join(varint(tag) + b"\0" for tag in range(1_000_000)))
    ),
    # 8: malformed values
    "an overlong varint": sized(header(METADATA, 9) + b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"),
    "a string of length -2": frame(METADATA, 1, 1, struct.pack(">ih", 1, -2)),
    "a topic that is no UTF-8": frame(METADATA, 1, 1, struct.pack(">ih", 1, 3) + b"\xff\xfe\xfd"),
    "trailing bytes": frame(METADATA, 1, 1, struct.pack(">i", 0) + b"more"),
    "an empty frame": sized(b""),
    # 9: half frames; closed at the deadline
    "half a length": b"\0\0",
    "half a header": sized(header(METADATA, 9))[:10],
}


ON_GATEWAY, ON_NODE = [pytest.mark.parametrize("target", [each], indirect=True) for each in (SERVICE_ROLES, NODE_ROLES)]


@pytest.fixture(scope="module")
def target(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(storage=2, roles=request.param, environment_of={"gateway-1": SETTINGS}) as cluster:
        yield cluster


def beside_a_producer(target: LocalCluster, topic: str, attack: Attack, *, left: int = 0) -> None:
    """The attack goes on while a producer and a consumer work; all of it ends well."""
    with ProduceRun(target.bootstrap, topic, partitions=4) as run, Tail(target.bootstrap, topic, partitions=4) as tail:
        run.advance(100)
        with attack:
            attack.press(left=left)
            run.advance(100)
            assert target.memory_bytes("gateway-1") < MEMORY_MAX
        run.finish()
        assert not run.disconnects, run.disconnects[:3]
        tail.catch_up(run)
    run.check(target.bootstrap)


@ON_NODE
def test_bytes_that_are_no_request_cost_only_their_own_connection(target: LocalCluster, topic: str) -> None:
    Admin(target.bootstrap).create(topic, 4)
    attack = Attack(target.shape.port + 1)
    for name, data in REFUSED.items():
        for _ in range(10):
            attack.connect(name, data)
    beside_a_producer(target, topic, attack)


@ON_GATEWAY
def test_a_byte_now_and_then_buys_no_time(target: LocalCluster, topic: str) -> None:
    Admin(target.bootstrap).create(topic, 4)
    attack = Trickle(target.shape.port + 1)
    for number in range(100):
        attack.connect(f"trickle {number}", sized(header(METADATA, 9) + bytes(100_000)))
    beside_a_producer(target, topic, attack)


@ON_NODE
def test_half_frames_have_a_budget(target: LocalCluster, topic: str) -> None:
    """Each has sent a megabyte of what it says are a hundred, and takes memory for more than that."""
    Admin(target.bootstrap).create(topic, 4)
    attack = Attack(target.shape.port + 1)
    for number in range(100):
        attack.connect(f"half frame {number}", struct.pack(">i", 100 * MIB) + bytes(MIB))
    beside_a_producer(target, topic, attack, left=8)


@ON_GATEWAY
def test_a_few_bytes_that_announce_a_large_frame_take_no_more_than_their_share(target: LocalCluster, topic: str) -> None:
    Admin(target.bootstrap).create(topic, 4)
    attack = Attack(target.shape.port + 1)
    for number in range(300):
        attack.connect(f"announcement {number}", struct.pack(">i", 100 * MIB) + b"soon")
    beside_a_producer(target, topic, attack)


def unread(topic: str) -> Mapping[str, bytes]:
    return {
        "Metadata": frame(METADATA, 9, 1, b"\0\0\0\0\0"),  # of all topics
        "Fetch": frame(FETCH, 11, 1, fetch_body(11, [(topic, [(partition, 0) for partition in range(4)])])),
    }


@pytest.mark.parametrize(
    ("target", "kind", "sockets"), [(SERVICE_ROLES, "Metadata", 3), (NODE_ROLES, "Fetch", 20)], indirect=["target"]
)
def test_ten_thousand_requests_whose_answers_nobody_reads_end_in_a_lost_connection(
    target: LocalCluster, topic: str, kind: str, sockets: int
) -> None:
    Admin(target.bootstrap).create(topic, 4)
    attack = Attack(target.shape.port + 1)
    for number in range(sockets):
        attack.connect(f"{kind} {number}", unread(topic)[kind] * 10_000, receive_buffer=4096)
    beside_a_producer(target, topic, attack)


DESCRIPTORS_MAX = 1024


def with_few_descriptors(plan: ProcessPlan) -> ProcessPlan:
    limit = f"--nofile={DESCRIPTORS_MAX}:{DESCRIPTORS_MAX}"
    return replace(plan, argv=("prlimit", limit, *plan.argv)) if plan.role == NODE_ROLES else plan


def test_a_crowd_of_connections_to_a_node_takes_no_descriptor_of_its_log(topic: str) -> None:
    """Each of the two services has half. The log opens new segments while more clients connect than there are descriptors."""
    cluster = LocalCluster(roles=NODE_ROLES)
    cluster.alter_plans(with_few_descriptors)
    with cluster:
        Admin(cluster.bootstrap).create(topic, 8, {"segment.ms": "1000"})
        logs = cluster.data_directory("storage-1")
        with ProduceRun(cluster.bootstrap, topic, partitions=8) as run, Attack(cluster.shape.port + 1) as attack:
            run.advance(50)
            for number in range(DESCRIPTORS_MAX + 100):
                attack.connect(f"idle {number}")
            attack.press(left=DESCRIPTORS_MAX // 2)
            before = len(list(logs.rglob("*.log")))
            run.advance(150)
            assert len(list(logs.rglob("*.log"))) >= before + 8
            assert len(list(Path(f"/proc/{cluster.pid('node-1')}/fd").iterdir())) < DESCRIPTORS_MAX
            run.finish()
            assert not run.disconnects, run.disconnects[:3]
        run.check(cluster.bootstrap)
        assert "Too many open files" not in cluster.log("node-1")
