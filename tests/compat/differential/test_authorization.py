"""A client with some ACLs, and without each of them, is answered as by Apache Kafka 4.2.1 with StandardAuthorizer."""

import hashlib
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from services.gateway.authorization.table import ROWS
from tests.compat.differential.authorized_requests import CASES, DESCRIBE, TOPIC, WRITE, Acl, Case
from tests.compat.differential.both_systems import BothSystems, check
from tests.compat.differential.comparison import differences, normalise
from tests.compat.differential.messages import encode_request
from tests.compat.differential.scenario import Scenario, World
from tests.compat.differential.scenarios.acls import SCENARIOS as ADMINISTRATION
from tests.compat.differential.systems import KAFKA, TIMEOUT_S, System, read_frame
from tests.compat.kafka.broker import QUICK, KafkaBroker
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually
from tests.support.ports import Reservation, reserve_ports
from tests.support.requirements import require

ALICE, PASSWORD = "alice", "pass-phrase-of-alice"
KAFKAS_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PLAIN_LOGIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{ALICE}="{PASSWORD}";'
FREE = {"api_versions", "sasl_handshake", "sasl_authenticate"}
CLIENTS = "clients"
"""A topic of real clients."""
ALL_OF_ALICE = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}


class AsAlice(System):
    """The system, as a client sees it who has authenticated."""

    def begin(self, connection: socket.socket) -> None:
        token = f"\0{ALICE}\0{PASSWORD}".encode()
        for api, fields in (("sasl_handshake", {"mechanism": "PLAIN"}), ("sasl_authenticate", {"auth_bytes": token})):
            connection.sendall(encode_request(api, 1, fields, correlation_id=1))  # type: ignore[arg-type]
            assert read_frame(connection) is not None, self.name


@dataclass
class Side:
    """One system, for its administrator and for a user."""

    admin: System
    alice: AsAlice

    def grant(self, *acls: Acl, topic: str) -> None:
        """These, and no others. Returns once they hold."""
        mine = {**ALL_OF_ALICE, "principal_filter": f"User:{ALICE}"}
        self.admin.ask("delete_acls", 3, {"filters": [mine]})
        creations = [
            {
                "resource_type": resource_type,
                "resource_name": name or topic,
                "resource_pattern_type": 3,
                "principal": f"User:{ALICE}",
                "host": "127.0.0.1",
                "operation": operation,
                "permission_type": 3,
            }
            for operation, resource_type, name in acls
        ]
        if creations:
            self.admin.ask("create_acls", 3, {"creations": creations})

        def held() -> bool:
            described = self.admin.ask("describe_acls", 3, mine)
            assert isinstance(described, dict), described
            return sum(len(resource["acls"]) for resource in described["resources"]) == len(creations)

        eventually(held, TIMEOUT_S)

    def answers(self, case: Case, topic: str) -> list[object]:
        """The answer with each grant of the case."""
        world = World(self.alice, case.version, topic)
        found: list[object] = []
        for acls in case.grants():
            self.grant(*acls, topic=topic)
            answer = self.alice.ask(case.api, case.version, case.ask(world))
            found.append(normalise(answer, self.alice))
        return found


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    require("java", "kafka", "etcd")
    ports = reserve_ports(11)
    try:
        yield from _started(ports, tmp_path_factory.mktemp("kafka"))
    finally:
        ports.release()


def _started(ports: Reservation, directory: Path) -> Iterator[tuple[Side, Side]]:
    secured = ports.first + 10
    broker = KafkaBroker(directory, options=QUICK)
    given = broker.all_properties()
    broker.properties |= {
        "listeners": f"{given['listeners']},SASL_PLAINTEXT://127.0.0.1:{secured}",
        "advertised.listeners": f"{given['advertised.listeners']},SASL_PLAINTEXT://127.0.0.1:{secured}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN_LOGIN,
        "authorizer.class.name": KAFKAS_AUTHORIZER,
        "super.users": "User:ANONYMOUS",
    }
    settings = {
        "PENSTOCK_SASL_LISTENER": f"SASL_PLAINTEXT://127.0.0.1:{ports.first}",
        "PENSTOCK_SASL_ENABLED_MECHANISMS": "PLAIN",
        "PENSTOCK_SASL_PLAIN_WITHOUT_TLS": "true",
        "PENSTOCK_AUTHORIZER": "StandardAuthorizer",
        "PENSTOCK_SUPER_USERS": "User:ANONYMOUS",
    }
    with broker, LocalCluster(environment_of={"gateway-1": settings}) as penstock:
        kafkas = Side(System(KAFKA, broker.port), AsAlice(KAFKA, secured))
        ours = Side(System("Penstock", penstock.shape.port + 1), AsAlice("Penstock", ports.first + 1))
        salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), b"salt-of-alice", 4096)
        user = {"name": ALICE, "mechanism": 1, "iterations": 4096, "salt": b"salt-of-alice", "salted_password": salted}
        ours.admin.ask("alter_user_scram_credentials", 0, {"deletions": [], "upsertions": [user]})
        for side in (kafkas, ours):
            _prepare(side)
        yield kafkas, ours


def _prepare(side: Side) -> None:
    """The topics of all cases, and coordinators that have loaded."""
    names = [*map(name_of, CASES), CLIENTS]
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
    answer = side.admin.ask("create_topics", 7, {"topics": topics, "timeout": 30_000})
    assert isinstance(answer, dict), answer
    for topic in answer["topics"]:
        assert topic["error_code"] == 0, topic
        side.alice.topic_ids[topic["name"]] = topic["topic_id"]
    for key_type in (0, 1):
        eventually(lambda key_type=key_type: _found(side, key_type), TIMEOUT_S)
    eventually(lambda: _given(side), TIMEOUT_S)
    side.alice.cluster_id = str(_of(side.admin.ask("describe_cluster", 0, {}))["cluster_id"])


def _of(answer: object) -> dict[str, object]:
    assert isinstance(answer, dict), answer
    return answer


def _found(side: Side, key_type: int) -> bool:
    return not _of(side.admin.ask("find_coordinator", 3, {"key": "authorized", "key_type": key_type}))["error_code"]


def _given(side: Side) -> bool:
    return not _of(side.admin.ask("init_producer_id", 0, {"transactional_id": None, "transaction_timeout": 1000}))["error_code"]


def name_of(case: Case) -> str:
    return f"topic-of-{case.slug}"


def test_each_api_that_is_checked_has_a_case() -> None:
    assert {case.api for case in CASES} == {key.name.lower() for key in ROWS} - FREE


@pytest.mark.parametrize("case", CASES, ids=[case.slug for case in CASES])
def test_each_permission_counts_as_in_kafka(sides: tuple[Side, Side], case: Case) -> None:
    with ThreadPoolExecutor(2) as both:
        kafka, penstock = both.map(lambda side: side.answers(case, name_of(case)), sides)
    found = [
        f"with {acls} at {'.'.join(path)}\n    Kafka:    {theirs!r}\n    Penstock: {ours!r}"
        for acls, of_kafka, of_penstock in zip(case.grants(), kafka, penstock, strict=True)
        for path, theirs, ours in differences(of_kafka, of_penstock)
        if "configs" not in path  # of new topics: other tests compare what they say
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("scenario", ADMINISTRATION, ids=[scenario.slug for scenario in ADMINISTRATION])
def test_acls_are_administered_as_in_kafka(sides: tuple[Side, Side], scenario: Scenario) -> None:
    kafka, penstock = sides
    with BothSystems(kafka.admin, penstock.admin) as both:
        check(both, scenario)


def test_librdkafka_hears_that_it_is_denied_and_goes_on_once_it_is_allowed(sides: tuple[Side, Side]) -> None:
    ours = sides[1]
    ours.grant(topic=CLIENTS)
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{ours.alice.port - 1}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": ALICE,
            "sasl.password": PASSWORD,
        }
    )
    assert _produced(producer) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    ours.grant((DESCRIBE, TOPIC, CLIENTS), topic=CLIENTS)
    assert _produced(producer) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    ours.grant((WRITE, TOPIC, CLIENTS), topic=CLIENTS)
    assert eventually(lambda: _produced(producer) == KafkaError.NO_ERROR, TIMEOUT_S)


def _produced(producer: Producer) -> int:
    """The error of one message."""
    errors: list[int] = []
    try:
        producer.produce(CLIENTS, b"hello", on_delivery=lambda error, _: errors.append(error.code() if error else 0))
    except KafkaException as refused:  # it knows already
        return int(refused.args[0].code())
    assert producer.flush(TIMEOUT_S) == 0
    return errors[0]
