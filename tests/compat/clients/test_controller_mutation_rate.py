"""`controller_mutation_rate` as real clients meet it (KIP-599)."""

import subprocess
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.clients.admin import REQUEST_S, Admin
from tests.compat.kafka.jars import KafkaJars
from tests.compat.kafka.tools import TOOL, run_tool
from tests.support.requirements import ROOT, require

PROGRAM = Path(__file__).parent / "programs" / "JavaMutations.java"


def test_javas_admin_client_tries_again_when_its_debt_is_paid(bootstrap: str, admin: Admin, topic: str) -> None:
    require("java", "kafka")
    command = KafkaJars(ROOT).command(str(PROGRAM), bootstrap, topic, options=TOOL)
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, done.stderr
    throttle_ms, created_after_ms = map(int, done.stdout.split())
    assert 0 < throttle_ms <= 2000
    assert created_after_ms >= throttle_ms
    assert not [name for name in admin.names() if name.startswith(topic)]


def test_a_debt_of_librdkafka_which_is_never_refused_has_kafka_topics_refused(
    bootstrap: str, admin: Admin, topic: str, tmp_path: Path
) -> None:
    """librdkafka speaks CreateTopics below version 6. Both have the same client id."""
    server = ("--bootstrap-server", bootstrap)
    of_client = ("kafka-configs", *server, "--alter", "--entity-type", "clients", "--entity-name", topic)
    run_tool(*of_client, "--add-config", "controller_mutation_rate=0.001")
    limited = AdminClient({"bootstrap.servers": bootstrap, "client.id": topic})
    limited.create_topics([NewTopic(topic, 2, 1)], request_timeout=REQUEST_S)[topic].result()
    settings = tmp_path / "client.properties"
    settings.write_text(f"client.id={topic}\n", encoding="utf-8")
    grow = ("kafka-topics", *server, "--command-config", str(settings), "--alter", "--topic", topic, "--partitions", "3")
    refused = run_tool(*grow, check=False)
    assert refused.returncode != 0
    assert "ThrottlingQuotaExceededException" in refused.text + refused.stderr.decode()
    assert admin.partition_count(topic) == 2
    run_tool(*of_client, "--delete-config", "controller_mutation_rate")
    run_tool(*grow)
    assert admin.partition_count(topic) == 3
