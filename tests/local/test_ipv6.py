"""A cluster whose clients come over IPv6, as `make up HOST=::1` starts it, and `penstock dev --host ::1`."""

import asyncio
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka.admin import AdminClient

from tests.dev.clients import consume, produce
from tests.dev.command import running
from tests.support.launcher import run_launcher
from tests.support.ports import reserve_ports
from tests.support.requirements import is_available, require


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    require("etcd")
    run: Path = tmp_path_factory.mktemp("ipv6") / "run"
    ports = reserve_ports(200)
    said = run_launcher(run, "up", f"--port={ports.first}", "--storage=2", "--host=::1").splitlines()
    assert said[-1] == f"bootstrap.servers=[::1]:{ports.first}"
    assert not [line for line in said if "warning" in line]
    assert f"[::1]:{ports.first + 1}" in run_launcher(run, "status")
    yield said[-1].partition("=")[2]
    run_launcher(run, "wipe")
    ports.release()


def test_clients_are_sent_to_the_ipv6_address_of_each_broker(bootstrap: str) -> None:
    client = AdminClient({"bootstrap.servers": bootstrap})
    port = int(bootstrap.rpartition(":")[2])
    brokers = client.list_topics(timeout=30).brokers
    assert {(broker.host, broker.port) for broker in brokers.values()} == {("::1", port + 1), ("::1", port + 2)}


def test_librdkafka_produces_and_consumes_with_a_group(bootstrap: str) -> None:
    produce(bootstrap, "by-librdkafka", [b"1", b"2"])
    assert consume(bootstrap, "by-librdkafka", 2) == [b"1", b"2"]
    client = AdminClient({"bootstrap.servers": bootstrap})
    described = client.describe_consumer_groups(["readers"])["readers"].result(30)
    assert described.coordinator.host == "::1"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_kafka_python_produces_and_consumes(bootstrap: str) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap)
    producer.send("by-kafka-python", b"1").get(timeout=30)
    producer.close()
    consumer = KafkaConsumer(
        "by-kafka-python", bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=30_000
    )
    assert next(iter(consumer)).value == b"1"
    consumer.close()


def test_aiokafka_produces_and_consumes(bootstrap: str) -> None:
    async def scenario() -> bytes:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            await producer.send_and_wait("by-aiokafka", b"1")
        async with AIOKafkaConsumer("by-aiokafka", bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            return bytes((await asyncio.wait_for(consumer.getone(), 30)).value)

    assert asyncio.run(scenario()) == b"1"


def test_kcat_produces_and_consumes(bootstrap: str) -> None:
    if not is_available("kcat"):
        pytest.skip("no kcat")
    argv = ["kcat", "-b", bootstrap, "-t", "by-kcat"]
    subprocess.run([*argv, "-P"], input=b"1\n", check=True, timeout=60)
    assert subprocess.run([*argv, "-C", "-e", "-o", "beginning"], capture_output=True, check=True, timeout=60).stdout == b"1\n"


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Sockets lie below it, whose paths have to be short."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def test_one_process_listens_at_an_ipv6_address(short_folder: Path) -> None:
    for host in ("::1", "[::1]"):
        with running(short_folder, "--host", host) as command:
            assert command.bootstrap_servers.startswith("[::1]:")
            produce(command.bootstrap_servers, "lines", [b"1"])
            assert consume(command.bootstrap_servers, "lines", 1) == [b"1"]


def test_one_socket_serves_both_versions_of_ip(short_folder: Path) -> None:
    with running(short_folder, "--host", "::", "--advertised-host", "127.0.0.1") as command:
        produce(command.bootstrap_servers, "lines", [b"1"])
        port = command.bootstrap_servers.rpartition(":")[2]
        assert consume(f"[::1]:{port}", "lines", 1) == [b"1"]
