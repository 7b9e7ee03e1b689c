"""Kafka answers a change when its controller has it. Its brokers follow, and describe and validate with what they have.

Scenarios go on when the broker shows what was changed. Else they would compare Kafka's former state.
"""

from typing import Any

from tests.compat.differential.scenario import Fields
from tests.compat.differential.scenarios import acls, client_quotas, configs
from tests.compat.differential.scenarios.config_bounds import GROUP
from tests.compat.differential.scenarios.configs import BROKER, BROKER_LOGGER, REMOVE, SET, TOPIC
from tests.compat.differential.systems import TIMEOUT_S, System
from tests.support.polling import eventually

SOURCES_OF_CHANGES = {TOPIC: 1, BROKER: 2, BROKER_LOGGER: 6, GROUP: 8}
"""Of DescribeConfigs, by kind of resource."""
SOURCE_OF_ALL_BROKERS = 3


def wait_until_shown(system: System, api: str, asked: Fields, response: Any) -> None:
    """Returns when the broker shows what this request changed, if it changed configs, client quotas or ACLs."""
    if not isinstance(response, dict) or asked.get("validate_only"):
        return
    if api in (configs.CHANGE, configs.REPLACE):
        outcomes = zip(asked["resources"], response["responses"], strict=True)
        changed = [resource for resource, outcome in outcomes if not outcome["error_code"]]
        eventually(lambda: all(_shows_configs(system, resource) for resource in changed), TIMEOUT_S)
    elif api == client_quotas.ALTER:
        refused = {_entity(entry) for entry in response["entries"] if entry["error_code"]}
        wanted = {entity: values for entity, values in _values_by_entity(asked).items() if entity not in refused}
        eventually(lambda: all(_shows_quotas(system, entity, values) for entity, values in wanted.items()), TIMEOUT_S)
    elif api == acls.CREATE:
        created = [acl for acl, result in zip(asked["creations"], response["results"], strict=True) if not result["error_code"]]
        eventually(lambda: all(_shows_acls(system, acls.exactly(acl)) for acl in created), TIMEOUT_S)
    elif api == acls.DELETE:
        done = [
            each for each, result in zip(asked["filters"], response["filter_results"], strict=True) if not result["error_code"]
        ]
        eventually(lambda: not any(_shows_acls(system, each) for each in done), TIMEOUT_S)


def _shows_acls(system: System, wanted: Fields) -> bool:
    described = system.ask(acls.DESCRIBE, acls.LATEST, wanted)
    assert isinstance(described, dict), f"{system.name}: {described}"
    return bool(described["resources"])


def _shows_configs(system: System, resource: Fields) -> bool:
    """Whether the broker shows as set what was set, and no longer what was removed."""
    named: dict[int, set[str]] = {SET: set(), REMOVE: set()}
    for each in resource["configs"]:
        named.setdefault(each.get("config_operation", SET), set()).add(each["name"])
    kind, name = resource["resource_type"], resource["resource_name"]
    asked = {"resource_type": kind, "resource_name": name, "configuration_keys": [*named[SET], *named[REMOVE]]}
    described = system.ask(configs.DESCRIBE, 1, {"resources": [asked], "include_synonyms": False})
    assert isinstance(described, dict), f"{system.name}: {described}"
    source = SOURCES_OF_CHANGES[kind] if name else SOURCE_OF_ALL_BROKERS
    shown = {each["name"] for each in described["results"][0]["configs"] if each["config_source"] == source}
    return named[SET] <= shown and shown.isdisjoint(named[REMOVE])


Entity = tuple[tuple[str, str | None], ...]


def _entity(entry: Fields) -> Entity:
    return tuple((each["entity_type"], each["entity_name"]) for each in entry["entity"])


def _values_by_entity(asked: Fields) -> dict[Entity, dict[str, float | None]]:
    """Of an entity that is named twice, Kafka takes the last entry. None: removed."""
    return {
        _entity(entry): {op["key"]: None if op["remove"] else op["value"] for op in entry["ops"]} for entry in asked["entries"]
    }


def _shows_quotas(system: System, entity: Entity, values: dict[str, float | None]) -> bool:
    exact, default = client_quotas.EXACT, client_quotas.DEFAULT
    components = [(kind, default if name is None else exact, name) for kind, name in entity]
    described = system.ask(client_quotas.DESCRIBE, 1, client_quotas.description(*components, strict=True))
    assert isinstance(described, dict), f"{system.name}: {described}"
    shown = client_quotas.quotas_in(described)
    return all(repr(shown.get(key)) == repr(value) for key, value in values.items())  # NaN is not equal to itself
