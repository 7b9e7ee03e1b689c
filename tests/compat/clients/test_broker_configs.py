"""Configs of brokers by Kafka's own kafka-configs: those without effect, those that nobody knows, retired ones, and limits of
connections, which it sets by brokers and by addresses."""

import socket
import struct
from contextlib import ExitStack

from tests.compat.kafka.tools import run_tool
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually

BUFFER, THREADS, PLUG_IN = "log.cleaner.io.buffer.size", "num.io.threads", "my.plug-in.color"
RETIRED = "log.message.timestamp.difference.max.ms"


def test_kafka_configs_alters_describes_and_deletes_configs_without_effect(bootstrap: str) -> None:
    server = ("kafka-configs", "--bootstrap-server", bootstrap, "--entity-type", "brokers")
    of_one = (*server, "--entity-name", "1")
    try:
        altered = run_tool(*of_one, "--alter", "--add-config", f"{BUFFER}=600000,{THREADS}=12,{PLUG_IN}=red")
        described = run_tool(*of_one, "--describe")
        refused = run_tool(*of_one, "--alter", "--add-config", f"{RETIRED}=5", check=False)
    finally:
        deleted = run_tool(*of_one, "--alter", "--delete-config", f"{BUFFER},{THREADS},{PLUG_IN}")
    assert altered.text.strip() == "Completed updating config for broker 1."
    assert described.text.splitlines() == [
        "Dynamic configs for broker 1 are:",
        f"  {BUFFER}=600000 sensitive=false synonyms={{DYNAMIC_BROKER_CONFIG:{BUFFER}=600000, DEFAULT_CONFIG:{BUFFER}=524288}}",
        f"  {PLUG_IN}=null sensitive=true synonyms={{DYNAMIC_BROKER_CONFIG:{PLUG_IN}=null}}",
        f"  {THREADS}=12 sensitive=false synonyms={{DYNAMIC_BROKER_CONFIG:{THREADS}=12, DEFAULT_CONFIG:{THREADS}=8}}",
    ]
    assert refused.returncode == 1
    successors = "use log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms"
    assert f"InvalidConfigurationException: Kafka has removed {RETIRED}: {successors}." in refused.stderr.decode()
    assert deleted.text.strip() == "Completed updating config for broker 1."


ADDRESS = "127.0.0.9"
"""Of no other client of the shared cluster."""
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def served(port: int, number: int) -> int:
    """How many of so many connections from ADDRESS, which are there together, have an answer. The others are closed."""
    with ExitStack() as stack:
        opened = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 5, (ADDRESS, 0))) for _ in range(number)]
        return sum(_is_served(each) for each in opened)


def _is_served(connection: socket.socket) -> bool:
    try:
        connection.sendall(API_VERSIONS)
        return connection.recv(1) != b""
    except (ConnectionResetError, BrokenPipeError):
        return False


def test_kafka_configs_sets_limits_of_connections_at_run_time(cluster: LocalCluster, bootstrap: str) -> None:
    server = ("kafka-configs", "--bootstrap-server", bootstrap)
    of_one, of_ip = ("--entity-type", "brokers", "--entity-name", "1"), ("--entity-type", "ips", "--entity-name", ADDRESS)
    limit, rate = "max.connections.per.ip.overrides", "connection_creation_rate"
    port = cluster.shape.port + 1
    try:
        run_tool(*server, *of_one, "--alter", "--add-config", f"{limit}=[{ADDRESS}:2,::1:9]")
        eventually(lambda: served(port, 3) == 2)
        described = run_tool(*server, *of_one, "--describe")
        assert f"{limit}={ADDRESS}:2,::1:9 sensitive=false synonyms={{DYNAMIC_BROKER_CONFIG:{limit}=" in described.text
        refused = run_tool(*server, *of_one, "--alter", "--add-config", "max.connections=0", check=False)
        assert "InvalidRequestException" in refused.stderr.decode()
    finally:
        run_tool(*server, *of_one, "--alter", "--delete-config", limit)
    eventually(lambda: served(port, 3) == 3)
    try:
        run_tool(*server, *of_ip, "--alter", "--add-config", f"{rate}=1")
        eventually(lambda: served(port, 30) < 30)
    finally:
        run_tool(*server, *of_ip, "--alter", "--delete-config", rate)
    eventually(lambda: served(port, 30) == 30)
