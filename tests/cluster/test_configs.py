"""Configs: what may be set, what is in force, and how it is described."""

import contextlib
import re
import typing
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.cluster.configs.broker_names import of_listener
from libs.cluster.configs.connection_table import limits_of_addresses
from libs.cluster.configs.definitions import (
    BROKER_CONFIGS,
    GROUP_CONFIGS,
    TOPIC,
    TOPIC_CONFIGS,
    ConfigError,
    NotSupportedYet,
    RetiredConfig,
    UnknownConfig,
    validate_broker,
    validate_static,
    validate_topic,
    without_secrets,
)
from libs.cluster.configs.describe import DescribedConfig, describe
from libs.cluster.configs.resolve import (
    BY_FACTOR,
    Setting,
    Source,
    TopicConfig,
    effective_broker_value,
    effective_topic_config,
)
from libs.cluster.configs.retired_table import RETIRED, RETIRED_OF_TOPICS
from libs.cluster.configs.values import LONG_MAX
from tests.support.requirements import ROOT

CLIENTS = {ROOT / "services" / "pipeline", ROOT / "libs" / "local_security", ROOT / "libs" / "client"}
"""What tells Kafka's clients their own configs, some of which have a broker config's name."""
KAFKAS_OWN = ROOT / "services" / "controller" / "migration"
"""Here Kafka's own `server.properties` is read."""


class Overrides(dict[tuple[str, str], dict[str, str]]):
    def overrides(self, kind: str, name: str) -> Mapping[str, str]:
        return self.get((kind, name), {})


NONE = Overrides()


def described(name: str, entries: list[DescribedConfig]) -> DescribedConfig:
    (definition,) = [entry for entry in entries if entry.name == name]
    return definition


@pytest.mark.parametrize("table", [TOPIC_CONFIGS, BROKER_CONFIGS, GROUP_CONFIGS])
def test_every_default_is_a_value_that_the_config_takes(table: dict[str, typing.Any]) -> None:
    for config in table.values():
        if config.default is not None:
            config.validate(config.default)
            assert config.canonical(config.default) == config.default


def test_every_synonym_of_a_topic_config_is_a_broker_config() -> None:
    for config in TOPIC_CONFIGS.values():
        assert set(config.synonyms) <= BROKER_CONFIGS.keys()


def test_the_typed_config_has_the_type_that_each_definition_parses_to() -> None:
    hints = typing.get_type_hints(TopicConfig)
    config = effective_topic_config(NONE, "t")
    for name, hint in hints.items():
        value = getattr(config, name)
        assert isinstance(value, typing.get_origin(hint) or hint), name
        assert isinstance(value, bool) == (hint is bool), name


def test_the_defaults_are_kafkas() -> None:
    config = effective_topic_config(NONE, "t")
    assert (config.segment_bytes, config.segment_ms, config.retention_ms) == (1 << 30, 604_800_000, 604_800_000)
    assert (config.retention_bytes, config.max_message_bytes, config.min_insync_replicas) == (-1, 1_048_588, BY_FACTOR)
    assert (config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms) == (LONG_MAX, 3_600_000)
    assert config.synced
    assert not config.log_append_time


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("segment.bytes", "5", "Value must be at least 1048576"),
        ("retention.ms", "abc", "Not a number of type LONG"),
        ("retention.ms", "1_000", "Not a number of type LONG"),
        ("retention.ms", "-2", "Value must be at least -1"),
        ("max.message.bytes", "2147483648", "Not a number of type INT"),
        ("min.insync.replicas", "0", "Value must be at least 1"),
        ("cleanup.policy", "shred", "String must be one of: compact, delete"),
        ("message.timestamp.type", "createtime", "String must be one of: CreateTime, LogAppendTime"),
        ("unclean.leader.election.enable", "yes", "Expected value to be either true or false"),
        ("min.cleanable.dirty.ratio", "1.5", "Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "nan", "Not a number of type DOUBLE"),
        ("min.cleanable.dirty.ratio", "NaN", "Not a number of type DOUBLE"),
        ("min.cleanable.dirty.ratio", "0x1p99999", "Not a number of type DOUBLE"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("durability", "maybe", "String must be one of: synced, replicated"),
        ("follower.replication.throttled.replicas", "x", "must be the literal '*'"),
    ],
)
def test_a_malformed_value_is_refused_in_kafkas_words(name: str, value: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match="Invalid value") as refusal:
        validate_topic(name, value)
    assert complaint in str(refusal.value)
    assert not isinstance(refusal.value, NotSupportedYet)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", " 1000 "),
        ("retention.ms", "-1"),
        ("segment.bytes", "1048576"),
        ("leader.replication.throttled.replicas", "0:1, 1:2,"),
        ("message.timestamp.type", "LogAppendTime"),
        ("durability", "replicated"),
        ("flush.messages", "1"),
        ("compression.type", "producer"),
        ("cleanup.policy", "delete"),
        ("cleanup.policy", "compact"),
        ("cleanup.policy", "compact,delete"),
        ("cleanup.policy", ""),
        ("delete.retention.ms", "0"),
        ("min.compaction.lag.ms", "1"),
        ("max.compaction.lag.ms", "1"),
        ("min.cleanable.dirty.ratio", "0.01"),
        ("min.cleanable.dirty.ratio", "0.5f"),
        ("min.cleanable.dirty.ratio", "0x1p-1"),
        ("remote.storage.enable", "False"),
        ("internal.segment.bytes", "4096"),
    ],
)
def test_a_value_that_works_or_changes_nothing_is_accepted(name: str, value: str) -> None:
    validate_topic(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("remote.storage.enable", "true"),
    ],
)
def test_a_config_that_is_not_supported_yet_is_refused_and_never_ignored(name: str, value: str) -> None:
    with pytest.raises(NotSupportedYet, match="is not supported yet by Penstock"):
        validate_topic(name, value)


def test_an_unknown_config_is_refused() -> None:
    with pytest.raises(UnknownConfig, match="Unknown topic config name"):
        validate_topic("no.such", "1")


def test_a_broker_config_may_have_any_name_as_in_kafka() -> None:
    for per_broker in (True, False):
        validate_broker("no.such", "1", per_broker=per_broker)
    image = Overrides({("broker", "1"): {"no.such": "1"}, ("broker", ""): {"nor.that": "2"}})
    entry = described("no.such", describe(image, 4, "1"))
    assert (entry.value, entry.source, entry.sensitive, entry.read_only) == (None, Source.DYNAMIC_BROKER, True, True)
    assert (entry.type, entry.documentation) == (0, None)
    assert described("nor.that", describe(image, 4, "1")).source == Source.DYNAMIC_DEFAULT_BROKER
    assert [each.name for each in describe(image, 4, "")] == ["nor.that"]


def test_a_listeners_config_has_the_type_and_the_scope_of_the_config_without_its_prefix() -> None:
    name = "listener.name.plaintext.num.network.threads"
    validate_broker(name, "7", per_broker=False)
    with pytest.raises(ConfigError, match="Not a number of type INT"):
        validate_broker(name, "x", per_broker=True)
    with pytest.raises(ConfigError, match="broker id must be specified"):
        validate_broker("listener.name.plaintext.ssl.keystore.location", "/x", per_broker=False)
    entry = described(name, describe(Overrides({("broker", "1"): {name: "7"}}), 4, "1"))
    assert (entry.value, entry.type, entry.sensitive) == ("7", 3, False)
    settings = [(each.name, each.value, each.source) for each in entry.synonyms]
    assert settings == [(name, "7", Source.DYNAMIC_BROKER), ("num.network.threads", "3", Source.DEFAULT)]
    secret = "listener.name.sasl.plain.sasl.jaas.config"
    entry = described(secret, describe(Overrides({("broker", "1"): {secret: "s"}}), 4, "1"))
    assert (entry.value, entry.type, entry.sensitive) == (None, 9, True)


def test_a_secret_is_only_told_to_be_set() -> None:
    assert without_secrets({"num.io.threads": "9", "ssl.key.password": "secret"}) == {
        "num.io.threads": "9",
        "ssl.key.password": "[hidden]",
    }


def test_a_config_without_effect_is_accepted_kept_and_described_as_such() -> None:
    for per_broker in (True, False):
        validate_broker("log.cleaner.io.buffer.size", "600000", per_broker=per_broker)
    image = Overrides({("broker", ""): {"log.cleaner.io.buffer.size": "600000"}})
    entry = described("log.cleaner.io.buffer.size", describe(image, 4, "1"))
    assert (entry.value, entry.source, entry.read_only) == ("600000", Source.DYNAMIC_DEFAULT_BROKER, False)
    assert entry.documentation is not None
    assert entry.documentation.startswith("No effect in Penstock.")
    with pytest.raises(ConfigError, match="Value must be at least 0"):
        validate_broker("log.cleaner.io.buffer.size", "-1", per_broker=True)


def test_nothing_reads_a_config_without_effect() -> None:
    code = "".join(
        path.read_text(encoding="utf-8")
        for top in ("libs", "services")
        for path in (ROOT / top).rglob("*.py")
        if path.parent not in (ROOT / "libs" / "cluster" / "configs", KAFKAS_OWN) and CLIENTS.isdisjoint(path.parents)
    )
    assert [config.name for config in BROKER_CONFIGS.values() if not config.effect and f'"{config.name}"' in code] == []


@pytest.mark.parametrize("name", ["num.network.threads", "num.io.threads"])
def test_threads_are_explained_by_what_takes_their_place(name: str) -> None:
    documentation = described(name, describe(NONE, 4, "1")).documentation
    assert documentation is not None
    assert "event loop" in documentation
    assert "take the place of more" in documentation


def test_a_config_without_effect_has_the_scope_that_it_has_in_kafka() -> None:
    with pytest.raises(ConfigError, match=r"Cannot update these configs dynamically: Set\(controller.quorum.voters\)"):
        validate_broker("controller.quorum.voters", "1@x:1", per_broker=True)
    with pytest.raises(ConfigError, match="using the listener prefix"):
        validate_broker("ssl.keystore.location", "/x", per_broker=True)
    with pytest.raises(ConfigError, match="Cannot update these configs at default cluster level, broker id must be specified"):
        validate_broker("sasl.kerberos.service.name", "x", per_broker=False)


def test_what_a_storage_node_can_be_started_with() -> None:
    validate_static("controller.quorum.voters", "1@x:1")
    validate_static("replica.fetch.max.bytes", "5")
    with pytest.raises(ConfigError, match="Not a number of type INT"):
        validate_static("num.io.threads", "many")
    with pytest.raises(UnknownConfig, match=r"Unknown broker config name: no\.such"):
        validate_static("no.such", "1")
    with pytest.raises(ConfigError, match="--entity-default"):
        validate_static("num.partitions", "3")
    with pytest.raises(ConfigError, match="--entity-name"):
        validate_static("decommission", "true")
    with pytest.raises(ConfigError, match=r"settings\.md"):
        validate_static("log.dir", "/x")


WHAT_IS_LACKING = (
    ("authorizer.class.name", "x", "PENSTOCK_AUTHORIZER"),
    ("create.topic.policy.class.name", "x", "Java classes"),
    ("remote.log.storage.system.enable", "true", "Remote storage"),
    ("ssl.client.auth", "required", "TLS"),
    ("listener.security.protocol.map", "PLAINTEXT:SSL", "TLS"),
    ("sasl.enabled.mechanisms", "SCRAM-SHA-512", "how clients authenticate"),
    ("max.connections.per.ip.overrides", "localhost:5", "names of hosts are not resolved"),
    ("config.providers", "file", "no provider"),
    ("security.inter.broker.protocol", "SSL", "TLS"),
    ("delegation.token.secret.key", "x", "delegation tokens"),
)


@pytest.mark.parametrize(("name", "value", "instead"), WHAT_IS_LACKING)
def test_a_protection_or_a_limit_that_would_be_missing_is_refused(name: str, value: str, instead: str) -> None:
    with pytest.raises(NotSupportedYet, match=f"is not supported yet by Penstock.*{instead}"):
        validate_static(name, value)
    config = BROKER_CONFIGS[name]
    if not config.read_only:
        with pytest.raises(NotSupportedYet, match=f"is not supported yet by Penstock.*{instead}"):
            validate_broker(name, value, per_broker=True)
    if config.default is not None:
        validate_static(name, config.default)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.keystore.location", "/x"),
        ("plain.sasl.jaas.config", "x"),
        ("ssl.client.auth", "required"),
    ],
)
def test_what_is_lacking_is_refused_for_one_listener_too(name: str, value: str) -> None:
    with pytest.raises(NotSupportedYet, match="is not supported yet by Penstock"):
        validate_broker(f"listener.name.plaintext.{name}", value, per_broker=True)


@pytest.mark.parametrize("name", ["max.connections", "max.connection.creation.rate"])
@pytest.mark.parametrize("per_broker", [True, False])
def test_a_listener_has_limits_of_connections_of_its_own(name: str, per_broker: bool) -> None:
    own = of_listener("PLAINTEXT", name)
    validate_broker(own, "1000", per_broker=per_broker)
    with pytest.raises(ConfigError, match="Value must be at least 1"):
        validate_broker(own, "0", per_broker=per_broker)


def test_limits_of_addresses_are_read_by_their_usual_spelling() -> None:
    text = " 10.0.0.7:5 , 0:0:0:0:0:0:0:1:7,::ffff:10.0.0.8:+9, 10.0.0.7:6,"
    assert limits_of_addresses(text) == {"10.0.0.7": 6, "::1": 7, "10.0.0.8": 9}
    assert limits_of_addresses("") == limits_of_addresses(" , ") == {}
    assert limits_of_addresses("localhost:5,10.0.0.7:-1") == {"10.0.0.7": -1}, "a later version may have resolved it"
    for wrong in ("10.0.0.7", ":", "10.0.0.7:5:", "10.0.0.7:2147483648", "10.0.0.7:five"):
        with pytest.raises(ConfigError, match="Error parsing configuration property"):
            limits_of_addresses(wrong)


@pytest.mark.parametrize(
    ("name", "successor"),
    [
        (
            "log.message.timestamp.difference.max.ms",
            "use log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms",
        ),
        ("zookeeper.connect", "PENSTOCK_ETCD"),
        ("control.plane.listener.name", "use controller.listener.names"),
    ],
)
def test_a_retired_config_is_refused_with_its_successor(name: str, successor: str) -> None:
    with pytest.raises(RetiredConfig, match=f"Kafka has removed {name}: .*{successor}"):
        validate_broker(name, "5", per_broker=True)
    with pytest.raises(RetiredConfig, match=successor):
        validate_static(name, "5")


def test_a_retired_config_of_topics_is_refused_with_its_successors() -> None:
    after = "use message.timestamp.before.max.ms and message.timestamp.after.max.ms"
    with pytest.raises(UnknownConfig, match=f"Unknown topic config name: message.timestamp.difference.max.ms.*{after}"):
        validate_topic("message.timestamp.difference.max.ms", "5")


def test_successors_are_names_that_exist() -> None:
    for table, known in ((RETIRED, BROKER_CONFIGS), (RETIRED_OF_TOPICS, TOPIC_CONFIGS)):
        assert not table.keys() & known.keys()
        for name, successor in table.items():
            for used in re.findall(r"(?:use|and) ([a-z]+\.[a-z.]+[a-z]|listeners)", successor):
                assert used in known, name


def test_secrets_are_not_shown() -> None:
    name = "listener.name.tls.ssl.key.password"
    assert without_secrets({name: "s", "ssl.key.password": "s", "num.io.threads": "9"}) == {
        name: "[hidden]",
        "ssl.key.password": "[hidden]",
        "num.io.threads": "9",
    }
    entry = described("ssl.key.password", describe(NONE, 4, "1", static={"ssl.key.password": "[hidden]"}))
    assert (entry.value, entry.source, entry.sensitive) == (None, Source.STATIC_BROKER, True)


def test_a_fixed_broker_config_cannot_be_changed_while_it_runs() -> None:
    with pytest.raises(ConfigError, match="Cannot update these configs dynamically"):
        validate_broker("node.id", "4", per_broker=True)
    with pytest.raises(ConfigError, match="at per-broker level"):
        validate_broker("num.partitions", "4", per_broker=True)
    validate_broker("num.partitions", "4", per_broker=False)


def test_a_topics_own_value_wins_over_its_brokers_over_the_clusters_over_the_default() -> None:
    image = Overrides()
    assert effective_topic_config(image, "t", broker_id=1).max_message_bytes == 1_048_588
    image["broker", ""] = {"message.max.bytes": "300"}
    assert effective_topic_config(image, "t", broker_id=1).max_message_bytes == 300
    image["broker", "1"] = {"message.max.bytes": "200"}
    assert effective_topic_config(image, "t", broker_id=1).max_message_bytes == 200
    assert effective_topic_config(image, "t", broker_id=2).max_message_bytes == 300
    image["topic", "t"] = {"max.message.bytes": "100"}
    assert effective_topic_config(image, "t", broker_id=1).max_message_bytes == 100
    assert effective_topic_config(image, "other", broker_id=1).max_message_bytes == 200


def test_coarse_synonyms_are_converted_and_lose_to_fine_ones() -> None:
    static = {"log.retention.hours": "2"}
    assert effective_topic_config(NONE, "t", static=static).retention_ms == 7_200_000
    image = Overrides({("broker", ""): {"log.retention.ms": "5"}})
    assert effective_topic_config(image, "t", static=static).retention_ms == 5
    assert effective_topic_config(NONE, "t", static={"log.retention.hours": "-1"}).retention_ms == -1


def test_the_test_only_segment_size_overrides_the_real_one() -> None:
    image = Overrides({("topic", "t"): {"internal.segment.bytes": "1024", "segment.bytes": "2097152"}})
    assert effective_topic_config(image, "t").segment_bytes == 1024


def test_a_stored_value_of_a_newer_version_is_passed_over() -> None:
    image = Overrides({("topic", "t"): {"durability": "telepathic"}, ("broker", ""): {"log.durability": "replicated"}})
    assert effective_topic_config(image, "t").durability == "replicated"
    assert described("durability", describe(image, 2, "t")).source == Source.DYNAMIC_DEFAULT_BROKER


@given(st.dictionaries(st.sampled_from(sorted(TOPIC_CONFIGS)), st.text(max_size=12)))
def test_whatever_is_stored_a_config_is_in_force_and_can_be_described(values: dict[str, str]) -> None:
    image = Overrides({("topic", "t"): values})
    assert effective_topic_config(image, "t").segment_bytes > 0
    for entry in describe(image, 2, "t"):
        assert entry.value is not None


@given(st.sampled_from(sorted(TOPIC_CONFIGS)), st.text(max_size=30))
def test_validation_answers_only_with_a_config_error(name: str, value: str) -> None:
    with contextlib.suppress(ConfigError):
        validate_topic(name, value)
        canonical = TOPIC_CONFIGS[name].canonical(value)
        assert TOPIC_CONFIGS[name].canonical(canonical) == canonical


def test_a_topic_is_described_with_values_sources_and_synonyms() -> None:
    image = Overrides({("topic", "t"): {"retention.ms": " 07 "}, ("broker", "1"): {"log.retention.ms": "9"}})
    entry = described("retention.ms", describe(image, 2, "t", broker_id=1))
    assert (entry.value, entry.source, entry.read_only, entry.sensitive, entry.type) == ("7", Source.TOPIC, False, False, 5)
    assert [(s.name, s.value, s.source) for s in entry.synonyms] == [
        ("retention.ms", "7", Source.TOPIC),
        ("log.retention.ms", "9", Source.DYNAMIC_BROKER),
        ("log.retention.hours", "168", Source.DEFAULT),
    ]
    assert described("retention.ms", describe(NONE, 2, "t")).synonyms == ()  # as Kafka: only the coarse one has a default
    assert described("retention.ms", describe(NONE, 2, "t")).value == "604800000"
    assert "internal.segment.bytes" not in {entry.name for entry in describe(NONE, 2, "t")}


def test_a_broker_is_described_with_its_fixed_values() -> None:
    image = Overrides({("broker", ""): {"num.partitions": "3"}})
    entries = describe(image, 4, "1", static={"node.id": "1"})
    assert (described("node.id", entries).value, described("node.id", entries).source) == ("1", Source.STATIC_BROKER)
    assert described("node.id", entries).read_only
    assert described("num.partitions", entries).value == "3"
    assert described("num.partitions", entries).source == Source.DYNAMIC_DEFAULT_BROKER
    assert described("log.retention.ms", entries).value is None
    assert effective_broker_value(image, "num.partitions") == 3


def test_the_cluster_default_is_described_with_what_was_set_only() -> None:
    image = Overrides({("broker", ""): {"num.partitions": "3"}})
    (entry,) = describe(image, 4, "")
    assert (entry.name, entry.value, entry.source) == ("num.partitions", "3", Source.DYNAMIC_DEFAULT_BROKER)
    assert describe(NONE, 4, "") == []


def test_other_resource_types_have_no_configs() -> None:
    with pytest.raises(ConfigError):
        describe(NONE, 8, "1")


def test_two_of_three_replicas_must_be_in_sync_where_nobody_says_how_many() -> None:
    def minimum(image: Overrides, factor: int) -> DescribedConfig:
        return described("min.insync.replicas", describe(image, TOPIC, "t", replication_factor=factor))

    assert [minimum(NONE, factor).value for factor in (1, 2, 3, 5)] == ["1", "1", "2", "2"]
    three = minimum(NONE, 3)
    assert (three.source, three.synonyms) == (Source.DEFAULT, (Setting("min.insync.replicas", "2", Source.DEFAULT),))
    assert effective_topic_config(NONE, "t").min_insync_replicas == BY_FACTOR
    for resource in (("topic", "t"), ("broker", "")):
        image = Overrides({resource: {"min.insync.replicas": "1"}})
        assert effective_topic_config(image, "t").min_insync_replicas == 1
        assert minimum(image, 3).value == "1"
    assert effective_topic_config(NONE, "t", static={"min.insync.replicas": "3"}).min_insync_replicas == 3
