"""Real clients with TLS and SASL: each mechanism, wrong passwords, users that are made and deleted, and a user's quota.

The listener of `secured` is SASL_SSL. That of clients without SASL is SSL.

The last test looks for passwords and keys in all that the cluster has written and shows.
"""

import asyncio
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from libs.cluster.scram_credentials import HASHES, SCRAM_SHA_256, SCRAM_SHA_512, derived
from tests.compat.clients.kafka_python import KafkaProducer, close_forgotten_clients, errors
from tests.compat.differential.scenarios.client_quotas import ALTER, PRODUCER, alteration, entry
from tests.compat.differential.systems import System
from tests.compat.kafka.tools import run_tool
from tests.support.certificates import Authority, client_context
from tests.support.cluster_harness import LocalCluster
from tests.support.open_transports import all_closed
from tests.support.polling import eventually
from tests.support.ports import reserve_ports
from tests.support.secrets_in_view import expect_no_secret, forms_of, written_and_shown

MECHANISMS = [SCRAM_SHA_256, SCRAM_SHA_512, "PLAIN"]
NUMBERS = {SCRAM_SHA_256: ScramMechanism.SCRAM_SHA_256, SCRAM_SHA_512: ScramMechanism.SCRAM_SHA_512}
ALICE, PASSWORD = "alice", "pass-phrase-of-alice"
SALT = b"salt-that-alice-was-given"


@dataclass
class Secured:
    cluster: LocalCluster
    bootstrap: str
    """The listener with SASL."""
    ssl_bootstrap: str
    """The listener with TLS and without SASL."""
    authority: Authority
    admin: AdminClient
    """At the listener without either."""

    def tool_settings(self, protocol: str) -> list[str]:
        """Of Java's tools, which read the truststore from PEM."""
        trust = [f"ssl.truststore.location={self.authority.certificate}", "ssl.truststore.type=PEM"]
        return [f"security.protocol={protocol}", *trust]

    def put(self, user: str, password: str, mechanism: str = SCRAM_SHA_256, salt: bytes = SALT) -> None:
        info = ScramCredentialInfo(NUMBERS[mechanism], 4096)
        self.alter(UserScramCredentialUpsertion(user, info, password.encode(), salt))

    def alter(self, change: UserScramCredentialUpsertion | UserScramCredentialDeletion) -> None:
        for done in self.admin.alter_user_scram_credentials([change]).values():
            done.result(60)


@pytest.fixture(scope="module")
def secured(authority: Authority, keystore: Path) -> Iterator[Secured]:
    ports, ssl_ports = reserve_ports(10), reserve_ports(10)
    settings = {
        "PENSTOCK_SASL_LISTENER": f"SASL_SSL://127.0.0.1:{ports.first}",
        "PENSTOCK_SASL_ENABLED_MECHANISMS": ",".join(MECHANISMS),
        "PENSTOCK_SSL_LISTENER": f"SSL://127.0.0.1:{ssl_ports.first}",
        "PENSTOCK_SSL_KEYSTORE_LOCATION": str(keystore),
        "PENSTOCK_FAILED_AUTHENTICATION_DELAY_MS": "10",
        "PENSTOCK_LOG_LEVEL": "trace",
    }
    with LocalCluster(environment_of={"gateway-1": settings, "controller-1": {"PENSTOCK_LOG_LEVEL": "trace"}}) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        made = Secured(cluster, f"127.0.0.1:{ports.first}", f"127.0.0.1:{ssl_ports.first}", authority, admin)
        for mechanism in NUMBERS:
            made.put(ALICE, PASSWORD, mechanism)
        yield made
    ports.release()
    ssl_ports.release()


def librdkafka(secured: Secured, mechanism: str, user: str, password: str) -> dict[str, str]:
    login = {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}
    trust = {"ssl.ca.location": str(secured.authority.certificate)}
    return {"bootstrap.servers": secured.bootstrap, "security.protocol": "SASL_SSL", **trust, **login}


def python(secured: Secured, mechanism: str, user: str, password: str) -> dict[str, object]:
    """The arguments of kafka-python and aiokafka."""
    login = {"sasl_mechanism": mechanism, "sasl_plain_username": user, "sasl_plain_password": password}
    trust = {"ssl_context": client_context(secured.authority)}
    return {"bootstrap_servers": secured.bootstrap, "security_protocol": "SASL_SSL", **trust, **login}


def is_let_in(secured: Secured, mechanism: str, user: str, password: str) -> bool:
    """By librdkafka."""
    told: list[str] = []
    admin = AdminClient({**librdkafka(secured, mechanism, user, password), "error_cb": lambda error: told.append(error.name())})

    def answer() -> str | None:
        try:
            admin.list_topics(timeout=0.5)
        except KafkaException:
            admin.poll(0)
            return "denied" if "_AUTHENTICATION" in told else None
        return "let in"

    return eventually(answer) == "let in"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_produces_and_consumes(secured: Secured, mechanism: str) -> None:
    settings, topic = librdkafka(secured, mechanism, ALICE, PASSWORD), f"librdkafka-{mechanism}"
    producer = Producer(settings)
    producer.produce(topic, b"hello")
    assert producer.flush(60) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = eventually(lambda: consumer.poll(0.2))
    assert found.value() == b"hello"
    consumer.close()
    shown = secured.cluster.admin("gateway-1", "/debug/connections")
    assert "User:alice" in shown


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_and_aiokafka_produce(secured: Secured, mechanism: str) -> None:
    producer = KafkaProducer(**python(secured, mechanism, ALICE, PASSWORD))
    assert producer.send(f"kafka-python-{mechanism}", b"hello").get(60).offset == 0
    producer.close()

    async def send() -> int:
        async with AIOKafkaProducer(**python(secured, mechanism, ALICE, PASSWORD)) as aiokafka:
            sent = await aiokafka.send_and_wait(f"aiokafka-{mechanism}", b"hello")
            return int(sent.offset)

    assert asyncio.run(send()) == 0


@pytest.mark.parametrize(("user", "password"), [(ALICE, "wrong"), ("nobody", PASSWORD)])
def test_a_wrong_user_or_password_is_denied(secured: Secured, user: str, password: str) -> None:
    for mechanism in MECHANISMS:
        assert not is_let_in(secured, mechanism, user, password)
    with pytest.raises(errors.KafkaError):
        KafkaProducer(**python(secured, SCRAM_SHA_256, user, password), bootstrap_timeout_ms=2000)
    close_forgotten_clients()

    async def send() -> None:
        aiokafka = AIOKafkaProducer(**python(secured, SCRAM_SHA_256, user, password))
        try:
            await aiokafka.start()
        finally:
            await aiokafka.stop()

    with pytest.raises(AioKafkaError):
        asyncio.run(send())


def test_a_deleted_user_stays_connected_and_does_not_come_back(secured: Secured) -> None:
    secured.put("bob", "first-pass-phrase")
    eventually(lambda: is_let_in(secured, SCRAM_SHA_256, "bob", "first-pass-phrase"))
    producer = Producer(librdkafka(secured, SCRAM_SHA_256, "bob", "first-pass-phrase"))
    producer.produce("of-bob", b"1")
    assert producer.flush(60) == 0
    secured.alter(UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_256))
    eventually(lambda: not is_let_in(secured, SCRAM_SHA_256, "bob", "first-pass-phrase"))
    producer.produce("of-bob", b"2")
    assert producer.flush(60) == 0
    secured.put("bob", "second-pass-phrase")
    eventually(lambda: is_let_in(secured, SCRAM_SHA_256, "bob", "second-pass-phrase"))
    assert not is_let_in(secured, SCRAM_SHA_256, "bob", "first-pass-phrase")


def test_a_quota_of_a_user_holds_for_it_and_nobody_else(secured: Secured) -> None:
    plaintext = System("Penstock", secured.cluster.shape.port + 1)
    answer = plaintext.ask(ALTER, 1, alteration(entry({"user": ALICE}, {PRODUCER: 1000.0})))
    assert isinstance(answer, dict)
    assert answer["entries"][0]["error_code"] == 0
    try:
        throttled = {}
        for name, settings in (
            ("alice", librdkafka(secured, SCRAM_SHA_256, ALICE, PASSWORD)),
            ("anonymous", {"bootstrap.servers": secured.cluster.bootstrap}),
        ):
            told: list[int] = []
            waits = {"throttle_cb": lambda event, told=told: told.append(event.throttle_time)}
            producer = Producer({**settings, **waits, "linger.ms": 0})
            for _ in range(4):
                producer.produce(f"limited-{name}", bytes(2000))
                assert producer.flush(60) == 0
            producer.poll(0)
            throttled[name] = bool(told)
        assert throttled == {"alice": True, "anonymous": False}
    finally:
        plaintext.ask(ALTER, 1, alteration(entry({"user": ALICE}, {PRODUCER: None})))


def test_kafkas_own_tools_make_a_user_who_then_produces(secured: Secured, tmp_path: Path) -> None:
    def login(mechanism: str, user: str, password: str) -> str:
        path = tmp_path / f"{user}.properties"
        module = f"org.apache.kafka.common.security.{'plain.Plain' if mechanism == 'PLAIN' else 'scram.Scram'}LoginModule"
        jaas = f'{module} required username="{user}" password="{password}";'
        lines = [*secured.tool_settings("SASL_SSL"), f"sasl.mechanism={mechanism}", f"sasl.jaas.config={jaas}"]
        path.write_text("\n".join(lines), encoding="utf-8")
        return str(path)

    there = ("--bootstrap-server", secured.bootstrap)
    of_alice = login("PLAIN", ALICE, PASSWORD)
    wanted = ("--alter", "--entity-type", "users", "--entity-name", "carol", "--add-config")
    credential = "SCRAM-SHA-512=[password=pass-of-carol]"
    made = run_tool("kafka-configs", *there, "--command-config", of_alice, *wanted, credential)
    assert "Completed updating config for user carol." in made.text
    eventually(lambda: is_let_in(secured, SCRAM_SHA_512, "carol", "pass-of-carol"))
    of_carol = login(SCRAM_SHA_512, "carol", "pass-of-carol")
    run_tool("kafka-console-producer", *there, "--topic", "of-carol", "--producer.config", of_carol, stdin=b"hello\n")
    consumer = Consumer({"bootstrap.servers": secured.cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["of-carol"])
    assert eventually(lambda: consumer.poll(0.2)).value() == b"hello"
    consumer.close()


def test_librdkafka_and_the_python_clients_move_much_over_tls(secured: Secured) -> None:
    there, trust = secured.ssl_bootstrap, {"ssl.ca.location": str(secured.authority.certificate)}
    settings = {"bootstrap.servers": there, "security.protocol": "SSL", **trust}
    producer = Producer({**settings, "linger.ms": 50, "batch.size": 1_000_000})
    values = [bytes([number % 256]) * 50_000 for number in range(200)]
    for value in values:
        producer.produce("over-tls", value, partition=0)
    assert producer.flush(60) == 0
    consumer = Consumer({**settings, "group.id": "over-tls", "auto.offset.reset": "earliest"})
    consumer.subscribe(["over-tls"])
    read: list[bytes] = []
    eventually(lambda: read.extend(each.value() for each in consumer.consume(100, 0.5)) or len(read) == len(values))
    assert read == values
    consumer.close()

    context = client_context(secured.authority)
    python_producer = KafkaProducer(bootstrap_servers=there, security_protocol="SSL", ssl_context=context)
    assert python_producer.send("over-tls", values[0]).get(60).offset == len(values)
    python_producer.close()

    async def read_all() -> list[bytes]:
        aiokafka = AIOKafkaConsumer(
            "over-tls", bootstrap_servers=there, security_protocol="SSL", ssl_context=context, auto_offset_reset="earliest"
        )
        async with all_closed(), aiokafka:
            return [(await aiokafka.getone()).value for _ in range(len(values) + 1)]

    assert asyncio.run(read_all()) == [*values, values[0]]


def test_kafkas_own_tools_speak_tls_with_a_truststore_of_pem(secured: Secured, tmp_path: Path) -> None:
    settings, there = tmp_path / "tls.properties", ("--bootstrap-server", secured.ssl_bootstrap, "--topic", "of-tools")
    settings.write_text("\n".join(secured.tool_settings("SSL")), encoding="utf-8")
    run_tool("kafka-console-producer", *there, "--producer.config", str(settings), stdin=b"hello\n")
    reading = ("--consumer.config", str(settings), "--from-beginning", "--max-messages", "1")
    assert "hello" in run_tool("kafka-console-consumer", *there, *reading).text.splitlines()


def test_nothing_that_the_cluster_wrote_or_shows_has_a_secret(secured: Secured) -> None:
    """It comes last. The store of etcd is the one place where the keys are."""
    assert is_let_in(secured, "PLAIN", ALICE, PASSWORD)
    assert not is_let_in(secured, "PLAIN", ALICE, PASSWORD + "-almost")
    salted = hashlib.pbkdf2_hmac(HASHES[SCRAM_SHA_256]().name, PASSWORD.encode(), SALT, 4096)
    keys = [SALT, salted, *derived(SCRAM_SHA_256, salted)]
    key = (secured.authority.directory / "server.key").read_text(encoding="utf-8").splitlines()[1]
    secrets = [key, PASSWORD, "first-pass-phrase", "second-pass-phrase", "pass-of-carol", *chain(*map(forms_of, keys))]
    found = written_and_shown(secured.cluster)
    assert any("principal=User:alice" in text or '"User:alice"' in text for text in found.values()), "the request log at TRACE"
    expect_no_secret(found, secrets)
