"""The other side of every comparison works: Apache Kafka starts here, and its tools and kcat reach it."""

from tests.compat.kafka.tools import run_kcat, run_tool


def test_kafka_keeps_what_its_own_console_tools_write(kafka, topic):
    run_tool("kafka-topics", "--bootstrap-server", kafka.bootstrap, "--create", "--topic", topic)
    run_tool("kafka-console-producer", "--bootstrap-server", kafka.bootstrap, "--topic", topic, stdin=b"one\ntwo\n")
    reading = ("--partition", "0", "--offset", "earliest", "--max-messages", "2")
    result = run_tool("kafka-console-consumer", "--bootstrap-server", kafka.bootstrap, "--topic", topic, *reading)
    assert result.stdout == b"one\ntwo\n"


def test_kcat_reaches_kafka(kafka, topic):
    run_kcat("-P", "-b", kafka.bootstrap, "-t", topic, stdin=b"one\ntwo\n")
    assert run_kcat("-C", "-e", "-q", "-b", kafka.bootstrap, "-t", topic).stdout == b"one\ntwo\n"
