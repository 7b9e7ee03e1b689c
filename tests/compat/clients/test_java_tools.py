"""Apache Kafka's own command-line tools. Each start of a JVM takes seconds, so a test does several things with one topic."""

import re
from pathlib import Path

import pytest
from confluent_kafka.admin import ResourceType

from tests.compat.clients.admin import Admin
from tests.compat.clients.five_clients import consume
from tests.compat.kafka.tools import run_tool, run_tools
from tests.support.polling import eventually


def test_topics_are_created_described_listed_grown_and_deleted(bootstrap: str, admin: Admin, topic: str) -> None:
    def topics(*arguments: str) -> str:
        return run_tool("kafka-topics", "--bootstrap-server", bootstrap, *arguments).text

    named = ("--topic", topic)
    assert f"Created topic {topic}." in topics("--create", *named, "--partitions", "3", "--config", "retention.ms=90000000")
    described = topics("--describe", *named)
    assert "PartitionCount: 3\tReplicationFactor: 3\tConfigs: retention.ms=90000000" in described
    assert re.search(r"TopicId: [\w-]{22}\t", described)
    leaders = re.findall(r"Partition: (\d)\tLeader: (\d)\tReplicas: ([\d,]+)\tIsr: ([\d,]+)", described)
    assert [partition for partition, *_ in leaders] == ["0", "1", "2"]
    assert all(leader == replicas[0] and replicas == isr for _, leader, replicas, isr in leaders)
    assert all(sorted(replicas.split(",")) == ["1", "2", "3"] for _, _, replicas, _ in leaders)
    topics("--alter", *named, "--partitions", "5")
    assert topic in topics("--list").split()
    assert admin.partition_count(topic) == 5
    topics("--delete", *named)
    eventually(lambda: topic not in admin.names())


def test_more_replicas_than_nodes_are_refused_with_words(bootstrap: str, admin: Admin, topic: str) -> None:
    create = ("--create", "--topic", topic, "--replication-factor", "4")
    refused = run_tool("kafka-topics", "--bootstrap-server", bootstrap, *create, check=False)
    assert refused.returncode != 0
    assert "InvalidReplicationFactorException" in refused.text + refused.stderr.decode()
    assert topic not in admin.names()


def test_the_console_producer_makes_a_topic_and_the_console_consumer_reads_it(bootstrap: str, admin: Admin, topic: str) -> None:
    server = ("--bootstrap-server", bootstrap, "--topic", topic)
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true")
    run_tool("kafka-console-producer", *server, *keyed, stdin=b"h:1,g:2\tkey\tvalue\nh:2\tk\xc3\xa9y\tv\xc3\xa4lue\n")
    shown = ("--formatter-property", "print.key=true", "--formatter-property", "print.headers=true")
    where = [part for name in ("timestamp", "offset", "partition") for part in ("--formatter-property", f"print.{name}=true")]
    reading = ("--partition", "0", "--offset", "earliest", "--max-messages", "2")
    read = run_tool("kafka-console-consumer", *server, *reading, *shown, *where).text
    written, lines = zip(*(line.split("\t", 1) for line in read.splitlines()), strict=True)
    assert lines == ("Partition:0\tOffset:0\th:1,g:2\tkey\tvalue", "Partition:0\tOffset:1\th:2\tkéy\tvälue")
    latest = written.index(max(written))  # both may have been written within a millisecond
    times = ((), ("--time", "earliest"), ("--time", "max-timestamp"), ("--time", "0"))
    offsets = [result.text.split() for result in run_tools(*(("kafka-get-offsets", *server, *time) for time in times))]
    assert offsets == [[f"{topic}:0:{offset}"] for offset in (2, 0, latest, 0)]


@pytest.mark.parametrize("acks", ["0", "1"])
def test_the_console_producer_stores_every_line_without_idempotence_too(
    bootstrap: str, admin: Admin, topic: str, acks: str
) -> None:
    admin.create(topic)
    server = ("--bootstrap-server", bootstrap, "--topic", topic)
    off = ("--command-property", "enable.idempotence=false", "--request-required-acks", acks)
    run_tool("kafka-console-producer", *server, *off, stdin="".join(f"{number}\n" for number in range(5_000)).encode())
    assert [int(message.value()) for message in consume(bootstrap, topic, 5_000)] == list(range(5_000))


def test_configs_of_topics_brokers_and_the_whole_cluster_are_altered_and_described(
    bootstrap: str, admin: Admin, topic: str
) -> None:
    def configs(*arguments: str) -> str:
        return run_tool("kafka-configs", "--bootstrap-server", bootstrap, *arguments).text

    admin.create(topic)
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    default = ("--entity-type", "brokers", "--entity-default")
    name = "log.retention.bytes"
    admin.set_config(ResourceType.BROKER, "2", name, "8000000000")
    server = ("kafka-configs", "--bootstrap-server", bootstrap)
    try:
        run_tools(
            (*server, "--alter", *of_topic, "--add-config", "retention.ms=80000000,max.message.bytes=2000000"),
            (*server, "--alter", *default, "--add-config", f"{name}=7000000000"),
        )
        configs("--alter", *of_topic, "--delete-config", "max.message.bytes")
        of_2 = ("--entity-type", "brokers", "--entity-name", "2")
        of_it, described = (
            result.text for result in run_tools((*server, "--describe", *of_topic), (*server, "--describe", *of_2))
        )
        assert "retention.ms=80000000" in of_it
        assert "max.message.bytes" not in of_it
        assert f"DYNAMIC_BROKER_CONFIG:{name}=8000000000, DYNAMIC_DEFAULT_BROKER_CONFIG:{name}=7000000000" in described
        assert admin.config(ResourceType.BROKER, "1")[name].value == "7000000000"
    finally:
        admin.set_config(ResourceType.BROKER, "2", name, None)
        configs("--alter", *default, "--delete-config", name)
    assert admin.config(ResourceType.BROKER, "1")[name].is_default


def test_the_producer_performance_tool_writes_what_it_reports(bootstrap: str, admin: Admin, topic: str) -> None:
    admin.create(topic, partitions=3)
    amount = ("--num-records", "20000", "--record-size", "500", "--throughput", "-1")
    server = ("--bootstrap-server", bootstrap, "--topic", topic)
    said = run_tool("kafka-producer-perf-test", *server, *amount, "--command-property", "acks=all").text
    assert said.splitlines()[-1].startswith("20000 records sent")
    offsets = run_tool("kafka-get-offsets", *server).text
    assert sum(int(line.rsplit(":", 1)[1]) for line in offsets.split()) == 20_000


def test_the_end_to_end_latency_tool_measures_and_commits(bootstrap: str, admin: Admin, topic: str) -> None:
    admin.create(topic)
    asked = ("--num-records", "200", "--producer-acks", "all", "--record-size", "100")
    done = run_tool("kafka-e2e-latency", "--bootstrap-server", bootstrap, "--topic", topic, *asked)
    assert re.search(r"Avg latency: [\d.]+ ms", done.text), done
    assert re.search(r"Percentiles: 50th = \d+, 99th = \d+", done.text)
    assert b"Exception" not in done.stderr
    assert len(consume(bootstrap, topic, 200)) >= 200


def test_the_api_versions_tool_sees_every_broker(bootstrap: str) -> None:
    said = run_tool("kafka-broker-api-versions", "--bootstrap-server", bootstrap).text
    assert set(re.findall(r"\(id: (\d)", said)) == {"1", "2", "3"}
    assert re.search(r"Produce\(0\): 0 to 13 \[usable: 13\]", said)
    assert re.search(r"Fetch\(1\): 4 to 18 \[usable: 18\]", said)


def test_a_client_that_expects_sasl_hears_that_nobody_asks_for_it(bootstrap: str, tmp_path: Path) -> None:
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
    settings = tmp_path / "sasl.properties"
    settings.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n", encoding="utf-8")
    listing = ("kafka-topics", "--bootstrap-server", bootstrap, "--list", "--command-config", str(settings))
    refused = run_tool(*listing, check=False)
    assert refused.returncode == 1
    assert "Unexpected handshake request with client mechanism PLAIN, enabled mechanisms are []" in refused.text


def test_the_acl_tool_hears_that_there_is_no_authorizer(bootstrap: str) -> None:
    server = ("kafka-acls", "--bootstrap-server", bootstrap)
    allowed = ("--allow-principal", "User:a", "--operation", "read", "--topic", "t")
    disabled = "Error while executing ACL command: org.apache.kafka.common.errors.SecurityDisabledException"
    listing, changing = "No Authorizer is configured on the broker", "No Authorizer is configured."
    adding = ("--add", *allowed)  # it lists first
    for command, message in ((("--list",), listing), (adding, listing), (("--remove", *allowed, "--force"), changing)):
        refused = run_tool(*server, *command, check=False)
        assert refused.returncode == 1
        assert refused.text.splitlines()[0] == f"{disabled}: {message}"
