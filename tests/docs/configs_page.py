"""Writes docs/use/configs.md from the tables of topic, broker and group configs.

`python -m tests.docs.configs_page [--check]`
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from libs.cluster.configs.definitions import AT_START, BROKER_CONFIGS, GROUP_CONFIGS, TOPIC_CONFIGS, ConfigDef, ConfigType
from libs.cluster.configs.group_table import COORDINATOR_CONFIGS
from libs.cluster.configs.resolve import MIN_IN_SYNC
from libs.cluster.configs.retired_table import RETIRED, ZOOKEEPER, successor_of
from libs.cluster.configs.values import LONG_MAX
from services.gateway.protocol_docs.differences import DIFFERENCES, Difference
from services.gateway.protocol_docs.protocol_page import write_page

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "use" / "configs.md"

_TOP = """# Configuration of topics, brokers and groups

Made by `python -m tests.docs.configs_page` from the tables in `libs/cluster/configs/`; do not edit.

These are Kafka's configs, under Kafka's names. `kafka-configs.sh` and every admin client set them; the cluster remembers them.
The `PENSTOCK_…` settings of a process are another matter: [settings](../settings.md).

```
configs="kafka-configs.sh --bootstrap-server 127.0.0.1:9092"
$configs --alter --topic orders --add-config retention.ms=86400000
$configs --alter --entity-type brokers --entity-default --add-config log.retention.ms=86400000
$configs --alter --entity-type brokers --entity-name 1 --add-config log.cleaner.threads=2
$configs --alter --entity-type groups --entity-name billing --add-config consumer.session.timeout.ms=50000
$configs --describe --all --topic orders
```

A change takes effect without a restart. `--delete-config` returns to the default. A value that is not valid is refused with
INVALID_CONFIG, or INVALID_REQUEST where it is a broker's, as in Kafka.

All configs of topics, brokers and groups that Kafka 4.2 knows are here. Nothing acts on those [without effect](#without-effect).
Tunings are accepted, kept and described as such, so that scripts that set them work. A config that asks for a protection, a limit
or a part that is not supported yet takes only its default, so that nobody takes it for done. [Retired](#retired) names are
refused, and the refusal names their successors.
The column *differences* links to [those from Kafka](../protocol.md#differences-from-kafka).

The value in force is the first of these that is set:

1. the topic's or group's own,
2. that of the one broker,
3. that of all brokers (`--entity-default`),
4. that from the broker's start,
5. the default.
"""

_TOPICS = """
## Topics

All of them can be changed at run time, and given at the creation of a topic. *From* names the broker configs that give
the default, the first that is set wins.

| config | type | default | valid values | what it does | from | differences |
|---|---|---|---|---|---|---|
"""

_BROKERS = """
## Brokers

*Change* says where and when a config can be set:

- **one or all**: at run time, for one broker or for all.
- **all**: at run time, for the whole cluster only, since no single broker decides it.
- **one**: at run time, for one broker only.
- **listener**: at run time, for one listener of one broker, as `listener.name.NAME.` and the config's name.
- **start**: only when a storage node starts, by `PENSTOCK_BROKER_CONFIGS`.
- **fixed**: DescribeConfigs shows it; it cannot be set as a config. A setting of a process may decide it.

What is **one or all** can be given at a storage node's start too.

As in Kafka, a broker config may have a name that nobody knows, for the sake of plug-ins. It is kept and has no effect. Like a
password's, its value is described as null. The metadata store and its backups hold such values as they were given.

| config | type | default | valid values | what it does | change | differences |
|---|---|---|---|---|---|---|
"""

_DEFAULTS = """
### Defaults of topic configs

*From*, in the table of topics, names them: each is the default of the topic config in its row, has its type, default and
valid values, and can be set as **one or all**. These differ:

| config | default of | type | default | valid values | change |
|---|---|---|---|---|---|
"""

_COORDINATORS = """
### Group coordinators

They are broker configs too. All can be changed at run time, for the whole cluster only.

| config | type | default | valid values | what it does | differences |
|---|---|---|---|---|---|
"""

_WITHOUT_EFFECT = """
### Without effect

Kafka's brokers act on these, and Penstock does not. DescribeConfigs says so in their documentation. They can be set where Kafka
lets them be set, and hold any value that Kafka's bounds allow. All of them can be given at a storage node's start. Those that are
**refused** take only their default, at a start and while the cluster runs. A cluster that ignored them would lack what they
promise. The refusal says what takes their place.

| config | type | default | valid values | what takes its place | change |
|---|---|---|---|---|---|
"""

_RETIRED = """
### Retired

Kafka has removed these broker configs. To set one answers INVALID_CONFIG, with what is below.

| config | successor |
|---|---|
"""

_GROUPS = """
## Groups

All can be changed at run time. A group need not exist yet. *From* names the broker config that gives the default.

| config | type | default | valid values | what it does | from | differences |
|---|---|---|---|---|---|---|
"""

_REASONS = """
More of them share a reason:
"""

_REASON = """
**{reason}**

| config | type | default | valid values | change |
|---|---|---|---|---|
"""

_SHARED_BY_MIN = 4
"""How many configs without effect share a reason that is said once, above their table."""

_SCALES = {
    "ms": ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")),
    "bytes": ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")),
}
_UNSET = "none"


def page() -> str:
    coordinators = {config.name for config in COORDINATOR_CONFIGS}
    defaults = default_of()
    others = [
        config for name, config in BROKER_CONFIGS.items() if name not in coordinators and name not in defaults and config.effect
    ]
    without_effect = [config for config in BROKER_CONFIGS.values() if not config.effect]
    reasons = Counter(meaning(config) for config in without_effect)
    shared = sorted(reason for reason, number in reasons.items() if number >= _SHARED_BY_MIN)
    return "".join(
        [
            _TOP,
            _TOPICS,
            *_lines((*_common(config), _from(config), _ids(config)) for config in TOPIC_CONFIGS.values()),
            _BROKERS,
            *_lines((*_common(config), change_of(config), _ids(config)) for config in others),
            _DEFAULTS,
            *_lines(
                _default_row(BROKER_CONFIGS[name], topic) for name, topic in sorted(defaults.items()) if differs(name, topic)
            ),
            _COORDINATORS,
            *_lines((*_common(BROKER_CONFIGS[name]), _ids(BROKER_CONFIGS[name])) for name in sorted(coordinators)),
            _WITHOUT_EFFECT,
            *_lines((*_common(config), change_of(config)) for config in without_effect if meaning(config) not in shared),
            _REASONS,
            *(_of_one_reason(reason, [each for each in without_effect if meaning(each) == reason]) for reason in shared),
            _RETIRED,
            *_lines((f"`{name}`", f"{successor[0].upper()}{successor[1:]}.") for name, successor in _retired()),
            _GROUPS,
            *_lines((*_common(config), _from(config), _ids(config)) for config in GROUP_CONFIGS.values()),
        ]
    )


def default_of() -> dict[str, ConfigDef]:
    """By broker config: the topic config that has its default from there."""
    return {name: config for config in TOPIC_CONFIGS.values() for name in config.synonyms}


def differs(name: str, topic: ConfigDef) -> bool:
    """Whether a broker config is more than another name of a topic config's default."""
    config = BROKER_CONFIGS[name]
    _, _, *own = _default_row(config, topic)
    return own != [topic.type.name.lower(), _default(topic), "", "one or all"]


def _retired() -> list[tuple[str, str]]:
    """Each retired broker config with its successor, and last those of ZooKeeper."""
    successor = successor_of(ZOOKEEPER)
    assert successor is not None
    return [*sorted(RETIRED.items()), (f"{ZOOKEEPER}*", successor)]


def change_of(config: ConfigDef) -> str:
    """The place and the time at which a broker config can be set."""
    if not config.effect and not config.served:
        return "refused"
    if config.per_listener:
        return "listener"
    if config.read_only:
        return "start" if config.name in AT_START else "fixed"
    if config.cluster_wide:
        return "all"
    return "one" if config.one_broker else "one or all"


def names(difference: Difference, config: ConfigDef) -> bool:
    """Whether the difference names the config, in full or by a pattern such as `share.*`."""
    text = difference.text
    if re.search(rf"(?<![\w.]){re.escape(config.name)}(?![\w]|\.\w)", text):
        return "." in config.name or f"`{config.name}`" in text
    return any(config.name.startswith(prefix) for prefix in re.findall(r"(?<![\w.])([a-z]+(?:\.[a-z]+)*\.)\*", text))


def _of_one_reason(reason: str, configs: list[ConfigDef]) -> str:
    rows = _lines((*_values(config), change_of(config)) for config in configs)
    return "".join([_REASON.format(reason=reason), *rows])


def _common(config: ConfigDef) -> tuple[str, ...]:
    return *_values(config), meaning(config)


def _values(config: ConfigDef) -> tuple[str, ...]:
    return f"`{config.name}`", config.type.name.lower(), _default(config), valid(config)


def _default_row(config: ConfigDef, topic: ConfigDef) -> tuple[str, ...]:
    other = valid(config) if valid(config) != valid(topic) else ""
    shown = _default(topic if config.default is None and len(topic.synonyms) == 1 else config)
    return f"`{config.name}`", f"`{topic.name}`", config.type.name.lower(), shown, other, change_of(config)


def meaning(config: ConfigDef) -> str:
    """Penstock's use of a config."""
    notes = []
    if not config.served and config.effect:
        notes.append("**Not supported yet**: only the default is accepted.")
    if config.served_values:
        notes.append(f"Only {' or '.join(f'`{value}`' for value in config.served_values)} is accepted.")
    if config.hidden:
        notes.append("Described only where it is set.")
    return " ".join([config.doc, *notes])


def valid(config: ConfigDef) -> str:
    if config.check is not None:
        return config.check.valid
    return "`true`, `false`" if config.type is ConfigType.BOOLEAN else "any"


def _default(config: ConfigDef) -> str:
    if config.name == MIN_IN_SYNC:
        return "2 with 3 replicas or more, else 1"
    if config.default is None:
        return _UNSET
    if not config.default:
        return "empty"
    if config.default in (str(LONG_MAX), "1.7976931348623157E308"):
        return "no limit"
    if config.type not in (ConfigType.INT, ConfigType.LONG, ConfigType.SHORT):
        return f"`{config.default}`"
    number = int(config.default)
    return f"{number:,}{_in_units(config.name, number)}" if number >= 0 else f"{number}"


def _in_units(name: str, number: int) -> str:
    """` (7 d)`, where that is a round number."""
    scales = _SCALES.get("ms" if name.endswith(".ms") else "bytes" if "bytes" in name or name.endswith("buffer.size") else "", ())
    return next((f" ({number // scale} {unit})" for scale, unit in scales if number >= scale and number % scale == 0), "")


def _from(config: ConfigDef) -> str:
    return ", ".join(f"`{name}`" for name in config.synonyms)


def _ids(config: ConfigDef) -> str:
    return ", ".join(f"[{each.id}](../protocol.md#{each.id})" for each in DIFFERENCES if names(each, config))


def _lines(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    for row in rows:
        yield f"| {' | '.join(row)} |\n".replace("  |", " |")


if __name__ == "__main__":
    sys.exit(write_page(PAGE, page, "tests.docs.configs_page"))
