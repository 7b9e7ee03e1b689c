"""Configs of groups, and ListConfigResources."""

from tests.compat.differential.scenario import Differs, Scenario, Step
from tests.compat.differential.scenarios.configs import CHANGE, DESCRIBE, REMOVE, REPLACE, SET, change, describe, replace

LIST = "list_config_resources"
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
APPEND = 2
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
ODD = "a/b c:é\n\x7f"


def changed(name: str, *changes: tuple[str, int, str | None]) -> Step:
    resource = {
        "resource_type": GROUP,
        "resource_name": name,
        "configs": [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes],
    }
    return Step(CHANGE, 1, {"resources": [resource], "validate_only": False})


def alter(name: str, *changes: tuple[str, int, str | None], validate_only: bool = True, times: int = 1):
    return change(*changes, kind=GROUP, name=name, validate_only=validate_only, times=times)


def listing(*types: int):
    return lambda world: {"resource_types": list(types)}


DESCRIBING = (
    Scenario("a group that is not there", DESCRIBE, describe(GROUP, "no-such-group")),
    Scenario("a group with synonyms", DESCRIBE, describe(GROUP, "no-such-group", include_synonyms=True)),
    Scenario("a group with documentation", DESCRIBE, describe(GROUP, "no-such-group", include_documentation=True)),
    Scenario("one config of a group", DESCRIBE, describe(GROUP, "no-such-group", [SESSION, "no.such"])),
    Scenario("a group without a name", DESCRIBE, describe(GROUP, "")),
    Scenario("a group with an odd name", DESCRIBE, describe(GROUP, ODD)),
    Scenario(
        "a group that is configured",
        DESCRIBE,
        describe(GROUP, ODD, include_synonyms=True),
        before=lambda world: [changed(ODD, (SESSION, SET, "50000"))],
    ),
    Scenario(
        "a group that was configured",
        DESCRIBE,
        describe(GROUP, "g", include_synonyms=True),
        before=lambda world: [changed("g", (SESSION, SET, " 50000 ")), changed("g", (SESSION, REMOVE, None))],
    ),
)

CHANGING = (
    Scenario("a group", CHANGE, alter("x", (SESSION, SET, "50000"))),
    Scenario("a group, two configs", CHANGE, alter("x", (SESSION, SET, "50000"), (HEARTBEAT, SET, "15000"))),
    Scenario("a group, one of two wrong", CHANGE, alter("x", (SESSION, SET, "50000"), (HEARTBEAT, SET, "15001"))),
    Scenario("a group without a name", CHANGE, alter("", (SESSION, SET, "50000"))),
    Scenario("a group, nothing", CHANGE, alter("x")),
    Scenario("a group twice", CHANGE, alter("x", (SESSION, SET, "50000"), times=2)),
    Scenario("a config of a group twice", CHANGE, alter("x", (SESSION, SET, "50000"), (SESSION, SET, "51000"))),
    Scenario("a config of a group to no value", CHANGE, alter("x", (SESSION, SET, None))),
    Scenario("a config of a group that is not set, removed", CHANGE, alter("x", (SESSION, REMOVE, None))),
    Scenario("an unknown config of a group", CHANGE, alter("x", ("no.such.config", SET, "1"))),
    Scenario("an unknown config of a group, removed", CHANGE, alter("x", ("no.such.config", REMOVE, None))),
    Scenario("a broker's config of a group", CHANGE, alter("x", ("group.consumer.session.timeout.ms", SET, "50000"))),
    Scenario("append to a config of a group", CHANGE, alter("x", (SESSION, APPEND, "50000"))),
    Scenario("append to an unknown config of a group", CHANGE, alter("x", ("no.such.config", APPEND, "50000"))),
)

REPLACING = (
    Scenario("a group", REPLACE, replace((SESSION, "50000"), kind=GROUP, name="x", validate_only=True)),
    Scenario("a group, nothing", REPLACE, replace(kind=GROUP, name="x", validate_only=True)),
    Scenario("a group without a name", REPLACE, replace((SESSION, "50000"), kind=GROUP, name="", validate_only=True)),
    Scenario("an unknown config of a group", REPLACE, replace(("no.such", "1"), kind=GROUP, name="x", validate_only=True)),
    Scenario("a config of a group out of bounds", REPLACE, replace((SESSION, "1"), kind=GROUP, name="x", validate_only=True)),
    Scenario("a config of a group to no value", REPLACE, replace((SESSION, None), kind=GROUP, name="x", validate_only=True)),
    Scenario(
        "a group that is configured",
        REPLACE,
        replace((HEARTBEAT, "6000"), kind=GROUP, name="replaced"),
        before=lambda world: [changed("replaced", (SESSION, SET, "50000"))],
    ),
    Scenario("another group, whatever it had", REPLACE, replace(kind=GROUP, name=ODD)),
)

LISTING = (
    Scenario("client metrics, the only ones once", LIST, lambda world: {}, versions=(0,)),
    Scenario("topics", LIST, listing(TOPIC), versions=(1,)),
    Scenario("brokers", LIST, listing(BROKER), versions=(1,)),
    Scenario("brokers and client metrics, brokers twice", LIST, listing(BROKER, CLIENT_METRICS, BROKER), versions=(1,)),
    Scenario("client metrics", LIST, listing(CLIENT_METRICS), versions=(1,)),
    Scenario("loggers", LIST, listing(BROKER_LOGGER), versions=(1,)),
    Scenario(
        "groups",
        LIST,
        listing(GROUP),
        versions=(1,),
        before=lambda world: [
            changed("listed", (SESSION, SET, "50000")),
            changed("never-set", (SESSION, REMOVE, None)),
            changed("no-longer", (SESSION, SET, "50000")),
            changed("no-longer", (SESSION, REMOVE, None)),
        ],
        differs=(Differs("group-configs-removed", "config_resources.*"),),
    ),
    Scenario("a type that is none", LIST, listing(3), versions=(1,)),
    Scenario("type 0", LIST, listing(0), versions=(1,)),
    Scenario("topics and a type that is none", LIST, listing(TOPIC, 64), versions=(1,)),
)

SCENARIOS = DESCRIBING + CHANGING + REPLACING + LISTING
