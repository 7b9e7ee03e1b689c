"""Clients and applications under TLS and ACLs: each as a user who may do what docs/security.md gives it, and nothing else.

All of them share one cluster. The last test looks for secrets in all that it has written and shows.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.compat.clients.groups.builds import PROGRAMS, franz_go_member, node_modules
from tests.compat.clients.groups.connect import Worker
from tests.compat.clients.transactions.topic_reader import TopicReader
from tests.compat.clients.transactions.word_count import word_count
from tests.compat.kafka.tools import run_tool
from tests.support.certificates import Authority
from tests.support.polling import eventually
from tests.support.printed_acls import printed_acls, run_printed
from tests.support.secrets_in_view import expect_no_secret, written_and_shown
from tests.support.secured_cluster import MECHANISMS, OAUTHBEARER, SecuredCluster, password_of, secured_cluster, write_properties

CERTIFICATE = "certificate"
WITHIN_S = 60.0


@pytest.fixture(scope="module")
def secured(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with secured_cluster(authority, tmp_path_factory.mktemp("secured")) as made:
        yield made


def identity(secured: SecuredCluster, user: str, way: str) -> dict[str, str]:
    if way == CERTIFICATE:
        return {"user": user, "keystore": str(secured.keystore(user))}
    secret = secured.token(user) if way == OAUTHBEARER else password_of(user)
    return {"user": user, "mechanism": way, "secret": secret}


def run_client(secured: SecuredCluster, client: str, way: str, directory: Path, writer: str = "producer") -> dict[str, object]:
    """What the program of kafkajs or franz-go says."""
    asked = {
        "bootstrap": secured.ssl_bootstrap if way == CERTIFICATE else secured.sasl_bootstrap,
        "ca": secured.ca,
        "topic": "orders",
        "group": "billing",
        "producer": identity(secured, writer, way),
        "consumer": identity(secured, "consumer", way),
    }
    (file := directory / "run.json").write_text(json.dumps(asked), encoding="utf-8")
    environment = dict(os.environ)
    if client == "kafkajs":
        environment |= {"NODE_PATH": str(node_modules()), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
        command = ["node", str(PROGRAMS / "kafkajs" / "secured.cjs"), str(file)]
    else:
        command = [str(franz_go_member()), "secured", str(file)]
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=WITHIN_S, check=False)
    assert done.stdout, done.stderr
    said: dict[str, object] = json.loads(done.stdout.splitlines()[0])
    return said


def error_of(raised: pytest.ExceptionInfo[KafkaException]) -> int:
    error: KafkaError = raised.value.args[0]
    return error.code()


@pytest.mark.parametrize("way", [*MECHANISMS, CERTIFICATE])
@pytest.mark.parametrize("client", ["kafkajs", "franz-go"])
def test_kafkajs_and_franz_go_write_and_read(secured: SecuredCluster, client: str, way: str, tmp_path: Path) -> None:
    assert f"of {client}" in str(run_client(secured, client, way, tmp_path)["read"])


@pytest.mark.parametrize("client", ["kafkajs", "franz-go"])
def test_they_hear_that_they_are_denied(secured: SecuredCluster, client: str, tmp_path: Path) -> None:
    said = run_client(secured, client, CERTIFICATE, tmp_path, writer="stranger")
    assert said == {"error": "TOPIC_AUTHORIZATION_FAILED"}
    assert secured.denials("stranger")


@pytest.mark.parametrize("idempotent", [False, True])
def test_librdkafka_with_a_certificate_writes_and_reads(secured: SecuredCluster, idempotent: bool) -> None:
    settings = secured.librdkafka_with_certificate
    producer = Producer({**settings("producer"), "enable.idempotence": idempotent})
    producer.produce("orders", b"of librdkafka")
    assert producer.flush(WITHIN_S) == 0
    consumer = Consumer({**settings("consumer"), "group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    message = eventually(lambda: consumer.poll(0.2))
    assert message.error() is None
    consumer.commit(message, asynchronous=False)
    consumer.close()
    assert not secured.denials("producer")
    assert not secured.denials("consumer")


def test_java_with_a_certificate_writes_and_reads(secured: SecuredCluster, tmp_path: Path) -> None:
    there = ("--bootstrap-server", secured.ssl_bootstrap, "--topic", "orders")
    files = {
        user: write_properties(tmp_path / user, secured.java_with_certificate(user) | {"auto.offset.reset": "earliest"})
        for user in ("producer", "consumer")
    }
    run_tool("kafka-console-producer", *there, "--producer.config", files["producer"], stdin=b"of Java\n")
    reading = ("--consumer.config", files["consumer"], "--group", "billing", "--max-messages", "1")
    assert run_tool("kafka-console-consumer", *there, *reading).text.strip()


def test_whoever_lacks_the_group_does_not_join_it(secured: SecuredCluster) -> None:
    consumer = Consumer({**secured.librdkafka("consumer"), "group.id": "accountant"})
    consumer.subscribe(["orders"])
    error = eventually(lambda: (message := consumer.poll(0.2)) and message.error())
    assert error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    consumer.close()


def test_a_transactional_producer_moves_positions_with_its_records(secured: SecuredCluster) -> None:
    settings = secured.librdkafka("accountant")
    producer = Producer({**settings, "transactional.id": "accountant"})
    consumer = Consumer({**settings, "group.id": "accountant"})
    consumer.assign([TopicPartition("orders", 0, 0)])
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    producer.produce("totals", b"1")
    producer.send_offsets_to_transaction([TopicPartition("orders", 0, 1)], consumer.consumer_group_metadata(), WITHIN_S)
    producer.commit_transaction(WITHIN_S)
    (committed,) = consumer.committed([TopicPartition("orders", 0)], WITHIN_S)
    assert committed.offset == 1
    consumer.close()
    assert not secured.denials("accountant")


def test_a_transactional_producer_needs_its_transactional_id(secured: SecuredCluster) -> None:
    with pytest.raises(KafkaException) as raised:
        Producer({**secured.librdkafka("accountant"), "transactional.id": "other"}).init_transactions(WITHIN_S)
    assert error_of(raised) == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_tools_of_administrators(secured: SecuredCluster, tmp_path: Path) -> None:
    def tool(user: str, name: str, *arguments: str) -> str:
        file = write_properties(tmp_path / user, secured.java(user))
        return run_tool(name, "--bootstrap-server", secured.sasl_bootstrap, "--command-config", file, *arguments).text

    of_new = ("--topic", "of-admin")
    tool("topics-admin", "kafka-topics", "--create", *of_new, "--partitions", "1")
    tool("topics-admin", "kafka-topics", "--alter", *of_new, "--partitions", "2")
    config = ("--entity-type", "topics", "--entity-name", "of-admin")
    tool("topics-admin", "kafka-configs", "--alter", *config, "--add-config", "retention.ms=60000")
    assert "retention.ms=60000" in tool("topics-admin", "kafka-configs", "--describe", *config)
    assert "PartitionCount: 2" in tool("topics-admin", "kafka-topics", "--describe", *of_new)
    tool("topics-admin", "kafka-topics", "--delete", *of_new)

    moved = ("--reset-offsets", "--to-earliest", "--topic", "orders", "--execute", "--group", "of-admin")
    tool("groups-admin", "kafka-consumer-groups", *moved)
    assert "orders" in tool("groups-admin", "kafka-consumer-groups", "--describe", "--group", "of-admin")
    tool("groups-admin", "kafka-consumer-groups", "--delete", "--group", "of-admin")

    assert "User:consumer" in tool("users-admin", "kafka-acls", "--list")
    user = ("--entity-type", "users", "--entity-name", "stranger")
    tool("users-admin", "kafka-configs", "--alter", *user, "--add-config", "producer_byte_rate=1000000")
    tool("users-admin", "kafka-configs", "--alter", *user, "--add-config", f"SCRAM-SHA-256=[password={password_of('stranger')}]")
    assert "producer_byte_rate" in tool("users-admin", "kafka-configs", "--describe", *user)
    for user in ("topics-admin", "groups-admin", "users-admin"):
        assert not secured.denials(user)


def test_a_worker_of_connect_and_its_connectors(secured: SecuredCluster, tmp_path: Path) -> None:
    """A source that writes in transactions, and a sink."""
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    source.write_text("first\nsecond\n", encoding="utf-8")
    with closing(Worker(secured.sasl_bootstrap, "connect", tmp_path / "worker", secured.java("connect"))) as worker:
        worker.start()
        worker.until_started()
        one = {"tasks.max": "1", "exactly.once.support": "required"}
        worker.put("from-file", {"connector.class": "FileStreamSource", "file": str(source), "topic": "lines", **one})
        worker.put("to-file", {"connector.class": "FileStreamSink", "file": str(sink), "topics": "lines", "tasks.max": "1"})
        eventually(lambda: sink.exists() and sink.read_text(encoding="utf-8") == "first\nsecond\n", WITHIN_S)
        assert set(worker.where("from-file")) == {"connector", "task 0"}
    assert not secured.denials("connect")


def test_an_application_of_streams(secured: SecuredCluster, tmp_path: Path) -> None:
    settings = {**secured.java("word-count"), "application.id": "word-count", "auto.offset.reset": "earliest"}
    producer = Producer({"bootstrap.servers": secured.cluster.bootstrap})
    producer.produce("lines", b"one two one")
    assert producer.flush(WITHIN_S) == 0
    with (
        TopicReader(secured.cluster.bootstrap, "counts", 1) as counts,
        word_count(secured.sasl_bootstrap, "lines", "counts", "i", tmp_path / "i", settings) as application,
    ):

        def is_counted() -> bool:
            application.expect_running()
            counts.poll(0.2)
            return ("one", "2 i") in counts.records[0]

        eventually(is_counted, WITHIN_S)
    assert not secured.denials("word-count")


def test_an_application_whose_acl_is_taken_away_hears_of_it(secured: SecuredCluster) -> None:
    """And goes on by itself when it is given back."""
    failed: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failed.append(error)

    def is_denied() -> bool:
        failed.clear()
        try:
            producer.produce("orders", b"more", on_delivery=on_delivery)
        except KafkaException as error:  # the client remembers it until it next asks for the topic
            failed.append(error.args[0])
        assert producer.flush(WITHIN_S) == 0
        codes = {error.code() for error in failed}
        assert codes <= {KafkaError.TOPIC_AUTHORIZATION_FAILED}
        return bool(codes)

    producer = Producer({**secured.librdkafka("producer"), "linger.ms": 0, "topic.metadata.refresh.interval.ms": 200})
    assert not is_denied()
    commands = printed_acls("A producer")
    run_printed(secured.cluster.bootstrap, [["--remove", "--force", *arguments[1:]] for arguments in commands])
    eventually(is_denied)
    run_printed(secured.cluster.bootstrap, commands)
    eventually(lambda: not is_denied())


def test_nothing_that_the_cluster_wrote_or_shows_has_a_secret(secured: SecuredCluster) -> None:
    """It comes last. Tokens, keys, their passwords, and those of users."""
    identity(secured, "producer", OAUTHBEARER)
    found = written_and_shown(secured.cluster)
    assert any("principal=User:producer" in text for text in found.values()), "the request log at TRACE"
    expect_no_secret(found, secured.secrets)
