"""Configs of brokers by Kafka's own kafka-configs: those without effect, those that nobody knows, and retired ones."""

from tests.compat.kafka.tools import run_tool

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
