"""ApiVersions: what is advertised, and the one API that answers versions which nobody has. UpdateFeatures."""

import struct

from tests.compat.differential.messages import framed
from tests.compat.differential.scenario import ABSENT, Differs, Scenario, Step, World
from tests.compat.differential.systems import ASKED

API, UPDATE = "api_versions", "update_features"
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
GROUPS, TRANSACTIONS = "group.version", "transaction.version"
GOOD = {"client_software_name": "differential", "client_software_version": "1.0"}


def bare(version: int, body: bytes = b"") -> bytes:
    return framed(struct.pack(">hhih", 18, version, ASKED, -1) + body)


def software(name: str, version: str):
    return lambda world: {"client_software_name": name, "client_software_version": version}


def update(*updates: tuple[str, int, int], validate_only: bool = False):
    changes = [
        {"feature": name, "max_version_level": level, "upgrade_type": kind, "allow_downgrade": kind > UPGRADE}
        for name, level, kind in updates
    ]
    return lambda world: {"feature_updates": changes, "validate_only": validate_only}


ADVERTISED = (
    Scenario(
        "what is served",
        API,
        lambda w: GOOD,
        differs=(
            Differs("not-built-yet", "api_keys.*", penstock=ABSENT),
            Differs("api-versions-features", "supported_features.**"),
            Differs("api-versions-features", "finalized_features.**", penstock=ABSENT),
            Differs("api-versions-features", "finalized_features_epoch"),
        ),
    ),
    Scenario("version 5", API, lambda w: bare(5, b"\0"), versions=[5], answer_version=0),
    Scenario("version 5 with a body", API, lambda w: bare(5, b"\0\x02a\x02b\0"), versions=[5], answer_version=0),
    Scenario("version 32767", API, lambda w: bare(32767), versions=[32767], answer_version=0),
    Scenario("version -1", API, lambda w: bare(-1), versions=[-1], answer_version=0),
    Scenario("no software name", API, software("", "1.0"), versions=[3, 4]),
    Scenario("no software version", API, software("x", ""), versions=[3, 4]),
    Scenario("a software name with a blank", API, software("a b", "1.0"), versions=[3, 4]),
    Scenario("a software name that begins with a dash", API, software("-a", "1.0"), versions=[3, 4]),
    Scenario("a software version that ends with a dot", API, software("a", "1."), versions=[3, 4]),
    Scenario("a software version with a newline", API, software("a", "1.0\n"), versions=[3, 4]),
    Scenario("a software name with a letter that is not ASCII", API, software("é", "1.0"), versions=[3, 4]),
)


def to_level_1(world: World) -> list[Step]:
    return [Step(UPDATE, 1, update((TRANSACTIONS, 1, SAFE_DOWNGRADE)))]


# Kafka is only asked for what changes nothing there, or is undone by the same scenario.
UPDATING = (
    Scenario("the level that it has", UPDATE, update((GROUPS, 1, UPGRADE))),
    Scenario("the level that it has, safely down", UPDATE, update((GROUPS, 1, SAFE_DOWNGRADE))),
    Scenario("the level that it has, unsafely down", UPDATE, update((GROUPS, 1, UNSAFE_DOWNGRADE))),
    Scenario("the level that it has, twice", UPDATE, update((GROUPS, 1, UPGRADE), (GROUPS, 1, UPGRADE))),
    Scenario("the level that it has, by a type that is none", UPDATE, update((GROUPS, 1, 9)), versions=(1, 2)),
    Scenario("nothing", UPDATE, update()),
    Scenario("a level that is none", UPDATE, update((GROUPS, 2, UPGRADE))),
    Scenario("a level below zero", UPDATE, update((GROUPS, -1, UNSAFE_DOWNGRADE)), versions=(1, 2)),
    Scenario("level zero without leave", UPDATE, update((GROUPS, 0, UPGRADE))),
    Scenario(
        "level zero",
        UPDATE,
        update((GROUPS, 0, SAFE_DOWNGRADE), validate_only=True),
        versions=(1, 2),
        differs=(
            Differs("update-features-one-level", "error_code", 0, 95),
            Differs("update-features-one-level", "results", penstock=[], versions=[1]),
        ),
    ),
    Scenario("a lower level by an upgrade", UPDATE, update((TRANSACTIONS, 1, UPGRADE))),
    Scenario("a lower level with leave in place of a type", UPDATE, update((TRANSACTIONS, 1, SAFE_DOWNGRADE)), versions=[0]),
    Scenario("safely down", UPDATE, update((TRANSACTIONS, 1, SAFE_DOWNGRADE), validate_only=True), versions=(1, 2)),
    Scenario("unsafely down to zero", UPDATE, update((TRANSACTIONS, 0, UNSAFE_DOWNGRADE), validate_only=True), versions=(1, 2)),
    Scenario("a level above the highest", UPDATE, update((TRANSACTIONS, 3, UPGRADE))),
    Scenario("a level above the highest, down", UPDATE, update((TRANSACTIONS, 3, SAFE_DOWNGRADE)), versions=(1, 2)),
    Scenario("down and up again", UPDATE, update((TRANSACTIONS, 2, UPGRADE)), before=to_level_1),
    Scenario(
        "a known feature twice, of which the last counts", UPDATE, update((TRANSACTIONS, 1, UPGRADE), (TRANSACTIONS, 2, UPGRADE))
    ),
    Scenario("a feature that nobody knows", UPDATE, update(("no.such.version", 1, UPGRADE))),
    Scenario("level zero of a feature that nobody knows", UPDATE, update(("no.such.version", 0, SAFE_DOWNGRADE))),
    Scenario("a feature without a name", UPDATE, update(("", 1, UPGRADE))),
    Scenario("a known feature and an unknown one", UPDATE, update((GROUPS, 1, UPGRADE), ("no.such.version", 1, UPGRADE))),
)

SCENARIOS = ADVERTISED + UPDATING
