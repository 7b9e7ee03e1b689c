"""The CPU of ACLs: a gateway with an authorizer and 1,000 ACLs beside one without, on the same storage node, in turn.

Two processes of the same code differ by a few per cent in speed. So each of the starts swaps which of the gateways has the
authorizer, and the figure is the median over the pairs of all starts.
"""

import statistics
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from libs.wire.errors import ErrorCode
from tests.bench.cases import KIB, unique
from tests.bench.cpu import cpu_of
from tests.bench.lean.generator import Loaded, plan_connections, run_load
from tests.bench.load import BenchError, connect, read_frame
from tests.bench.overheads import interval
from tests.bench.sides import Side
from tests.support.cluster_harness import LocalCluster

ACLS = 1000
CLIENT = "User:ANONYMOUS"
CONNECTIONS = 4
FILLED_BYTES = 16 * KIB * KIB
STARTS, PAIRS, SECONDS = 4, 12, 0.5
MARK = "≤ 1.02"
WITH_AUTHORIZER = {"PENSTOCK_AUTHORIZER": "StandardAuthorizer", "PENSTOCK_ALLOW_EVERYONE_IF_NO_ACL_FOUND": "true"}
"""The second lets the first ACL be made, which the client needs for all others."""

DESCRIBE_ACLS = struct.pack(">ihhih", 20, 29, 1, 1, -1) + struct.pack(">bhbhhbb", 2, -1, 3, -1, -1, 1, 1)
"""DescribeAcls 1: ACLs of any principal and host on any topic, of an operation and a permission that are any."""
ERROR_AT = 4 + 4 + 4
"""In its answer: behind the length, the correlation id and the throttle time."""

Load = Mapping[str, object]
LOADS: Mapping[str, tuple[str, Load]] = {
    "produce-1KB": ("produce", {"acks": 1, "batch-bytes": KIB, "bytes-max": FILLED_BYTES}),
    "produce-16KB": ("produce", {"acks": 1, "batch-bytes": 16 * KIB, "bytes-max": FILLED_BYTES}),
    "fetch-64KB": ("fetch", {"max-bytes": 64 * KIB}),
}


@dataclass(frozen=True)
class Gateway:
    """One of the two, as the load sees it."""

    pid: int
    topic: str
    plan: Sequence[str]

    def cpu_us(self, load: str, seconds: float) -> float:
        """CPU of this gateway for each request."""
        api, options = LOADS[load]
        before = cpu_of({"gateway": self.pid})["gateway"]
        done: Loaded = run_load(api, self.topic, self.plan, seconds, options)
        return (cpu_of({"gateway": self.pid})["gateway"] - before) * 1e6 / done.requests


def _acl(kind: ResourceType, name: str, pattern: ResourcePatternType, user: str, operation: AclOperation) -> AclBinding:
    return AclBinding(kind, name, pattern, user, "*", operation, AclPermissionType.ALLOW)


def acls_of(topic: str) -> list[AclBinding]:
    """What an operator might have: applications with topics and prefixes of their own, and one that is denied the topic."""
    literal, prefixed = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
    made = [
        _acl(ResourceType.BROKER, "kafka-cluster", literal, CLIENT, AclOperation.ALTER),
        _acl(ResourceType.TOPIC, topic[: len(topic) // 2], prefixed, CLIENT, AclOperation.WRITE),
        _acl(ResourceType.TOPIC, topic, literal, CLIENT, AclOperation.READ),
        AclBinding(ResourceType.TOPIC, topic, literal, "User:stranger", "*", AclOperation.ALL, AclPermissionType.DENY),
    ]
    others = range((ACLS - len(made)) // 3)
    made += [_acl(ResourceType.TOPIC, f"application-{n}", literal, f"User:{n}", AclOperation.WRITE) for n in others]
    made += [_acl(ResourceType.TOPIC, f"application-{n}-", prefixed, f"User:{n}", AclOperation.READ) for n in others]
    made += [_acl(ResourceType.GROUP, f"group-{n}", literal, f"User:{n}", AclOperation.READ) for n in others]
    missing = range(ACLS - len(made))
    return made + [_acl(ResourceType.TOPIC, f"other-{n}", literal, CLIENT, AclOperation.READ) for n in missing]


@contextmanager
def _gateways(with_authorizer: int) -> Iterator[dict[str, Gateway]]:
    """Both gateways of one cluster. The number is that of the gateway with the authorizer. Each serves all partitions at its own
    port of the broker, whichever of the two its clients are told of."""
    without = 3 - with_authorizer
    environment_of = {f"gateway-{number}": WITH_AUTHORIZER for number in (1, 2)}
    with LocalCluster(gateways=2, environment_of=environment_of) as cluster:
        topic = unique("authorization")
        side = Side("penstock", cluster.bootstrap, {"durability": "replicated"})
        side.create_topic(topic, CONNECTIONS)
        first, *others = acls_of(topic)
        for bindings in ([first], others):
            for done in side.admin.create_acls(bindings).values():
                done.result(timeout=60)
        environment_of[f"gateway-{without}"] = {}
        cluster.restart(f"gateway-{without}")
        made = {}
        for name, number in (("with", with_authorizer), ("without", without)):
            leaders = [("127.0.0.1", cluster.shape.bootstrap_port(number) + 1)] * CONNECTIONS
            made[name] = Gateway(cluster.pid(f"gateway-{number}"), topic, plan_connections(leaders, CONNECTIONS))
        _check_who_decides(cluster.shape.bootstrap_port(with_authorizer), cluster.shape.bootstrap_port(without))
        yield made


def _check_who_decides(with_authorizer: int, without: int) -> None:
    """Raises BenchError unless the first gateway has an authorizer, and the second has none."""
    for port, wanted in ((with_authorizer, ErrorCode.NONE), (without, ErrorCode.SECURITY_DISABLED)):
        connected = connect(("127.0.0.1", port))
        connected.sendall(DESCRIBE_ACLS)
        (error,) = struct.unpack_from(">h", read_frame(connected), ERROR_AT)
        connected.close()
        if error != wanted:
            raise BenchError(f"the gateway at port {port} answered DescribeAcls with error {error}, not {wanted}")


def authorization(starts: int = STARTS, pairs: int = PAIRS, seconds: float = SECONDS) -> list[dict[str, object]]:
    costs: dict[str, list[tuple[float, float]]] = {load: [] for load in LOADS}
    for start in range(starts):
        with _gateways(1 + start % 2) as gateways:
            for load in LOADS:
                for gateway in gateways.values():
                    gateway.cpu_us(load, 1.0)
                for pair in range(pairs):
                    order = ("with", "without") if pair % 2 else ("without", "with")
                    taken = {name: gateways[name].cpu_us(load, seconds) for name in order}
                    costs[load].append((taken["with"], taken["without"]))
    return [_figure(load, taken, starts, seconds) for load, taken in costs.items()]


def _figure(load: str, taken: Sequence[tuple[float, float]], starts: int, seconds: float) -> dict[str, object]:
    ratios = sorted(costly / base for costly, base in taken)
    return {
        "name": f"authorization-{load}",
        "penstock": round(statistics.median(ratios), 3),
        "interval": interval(ratios),
        "unit": "× CPU of a gateway without authorizer",
        "mark": MARK,
        "settings": f"{ACLS} ACLs, {CONNECTIONS} connections, {starts} starts that swap the gateways, turns of {seconds} s",
        "pairs": len(taken),
        "cpu_us": {
            "with": round(statistics.median(costly for costly, _ in taken), 2),
            "without": round(statistics.median(base for _, base in taken), 2),
        },
        "per": "request",
    }
