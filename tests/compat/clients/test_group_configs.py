"""Configs of groups by Kafka's own kafka-configs."""

import secrets

from tests.compat.clients.admin import Admin
from tests.compat.kafka.tools import run_tool, run_tools

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def test_kafka_configs_alters_describes_and_deletes_those_of_a_group(bootstrap: str) -> None:
    group = f"ratios-{secrets.token_hex(4)}"
    server = ("kafka-configs", "--bootstrap-server", bootstrap)
    of_it = ("--entity-type", "groups", "--entity-name", group)

    altered = run_tool(*server, "--alter", *of_it, "--add-config", f"{SESSION}=50000,{HEARTBEAT}=6000").text
    assert altered.strip() == f"Completed updating config for group {group}."

    described, everything, refused, unknown = (
        run_tool(*server, *arguments, check=False)
        for arguments in (
            ("--describe", *of_it),
            ("--describe", "--group", group, "--all"),
            ("--alter", *of_it, "--add-config", f"{SESSION}=1"),
            ("--alter", *of_it, "--add-config", "session.timeout.ms=50000"),
        )
    )
    assert described.text.splitlines() == [
        f"Dynamic configs for group {group} are:",
        f"  {HEARTBEAT}=6000 sensitive=false synonyms={{DYNAMIC_GROUP_CONFIG:{HEARTBEAT}=6000}}",
        f"  {SESSION}=50000 sensitive=false synonyms={{DYNAMIC_GROUP_CONFIG:{SESSION}=50000}}",
    ]
    assert len(everything.text.splitlines()) == 12
    assert "  share.session.timeout.ms=45000 sensitive=false synonyms={DEFAULT_CONFIG:" in everything.text
    message = f"InvalidConfigurationException: {SESSION} must be greater than or equal to group.consumer.min.session.timeout.ms"
    assert (refused.returncode, message in refused.stderr.decode()) == (1, True)
    assert (unknown.returncode, "Unknown group config name: session.timeout.ms" in unknown.stderr.decode()) == (1, True)

    deleted = run_tool(*server, "--alter", *of_it, "--delete-config", f"{SESSION},{HEARTBEAT}").text
    assert deleted.strip() == f"Completed updating config for group {group}."


def test_kafka_configs_describes_all_listed_resources(bootstrap: str, admin: Admin, topic: str) -> None:
    """Without a name the tool first sends ListConfigResources."""
    admin.create(topic)
    server = ("kafka-configs", "--bootstrap-server", bootstrap)
    group = f"listed-{secrets.token_hex(4)}"
    run_tool(*server, "--alter", "--entity-type", "groups", "--entity-name", group, "--add-config", f"{SESSION}=50000")
    topics, brokers, groups, metrics = run_tools(
        (*server, "--describe", "--entity-type", "topics"),
        (*server, "--describe", "--entity-type", "brokers"),
        (*server, "--describe", "--entity-type", "groups"),
        (*server, "--describe", "--entity-type", "client-metrics"),
    )
    assert f"Dynamic configs for topic {topic} are:" in topics.text
    assert "Dynamic configs for broker 3 are:" in brokers.text
    assert f"Dynamic configs for group {group} are:" in groups.text
    assert metrics.text == ""
