"""SASL's APIs on a listener without SASL, and those of ACLs without an authorizer."""

from tests.compat.differential.scenario import Scenario

HANDSHAKE, AUTHENTICATE = "sasl_handshake", "sasl_authenticate"
DESCRIBE, CREATE, DELETE = "describe_acls", "create_acls", "delete_acls"
UNKNOWN, ANY, TOPIC, LITERAL, READ, ALLOW = 0, 1, 2, 3, 3, 3

SASL = (
    Scenario("PLAIN", HANDSHAKE, lambda w: {"mechanism": "PLAIN"}),
    Scenario("a mechanism that is none", HANDSHAKE, lambda w: {"mechanism": "no such"}),
    Scenario("no mechanism", HANDSHAKE, lambda w: {"mechanism": ""}),
    Scenario("a token", AUTHENTICATE, lambda w: {"auth_bytes": b"\0user\0password"}),
    Scenario("an empty token", AUTHENTICATE, lambda w: {"auth_bytes": b""}),
)


def filtered(**fields: int | str):
    every = {"resource_type_filter": TOPIC, "pattern_type_filter": ANY, "operation": ANY, "permission_type": ANY}
    return {**every, **fields}


def acl(**fields: int | str):
    every = {"resource_type": TOPIC, "resource_name": "t", "resource_pattern_type": LITERAL, "operation": READ}
    return {**every, "principal": "User:a", "host": "*", "permission_type": ALLOW, **fields}


def create(*acls: dict[str, int | str]):
    return lambda world: {"creations": list(acls)}


def delete(*filters: dict[str, int | str]):
    return lambda world: {"filters": list(filters)}


ACLS = (
    Scenario("of all topics", DESCRIBE, lambda w: filtered()),
    Scenario("of one user", DESCRIBE, lambda w: filtered(principal_filter="User:a", host_filter="*")),
    Scenario("of a resource type that is none", DESCRIBE, lambda w: filtered(resource_type_filter=99)),
    Scenario("of an unknown resource type", DESCRIBE, lambda w: filtered(resource_type_filter=UNKNOWN)),
    Scenario("of an unknown pattern type", DESCRIBE, lambda w: filtered(pattern_type_filter=UNKNOWN)),
    Scenario("of an unknown operation", DESCRIBE, lambda w: filtered(operation=UNKNOWN)),
    Scenario("of an unknown permission", DESCRIBE, lambda w: filtered(permission_type=UNKNOWN)),
    Scenario("one", CREATE, create(acl())),
    Scenario("one, twice", CREATE, create(acl(), acl())),
    Scenario("none", CREATE, create()),
    Scenario("for a principal without a type", CREATE, create(acl(principal="a"))),
    Scenario("for a resource type that is none", CREATE, create(acl(resource_type=99))),
    Scenario("for an unknown resource type", CREATE, create(acl(), acl(resource_type=UNKNOWN))),
    Scenario("for an unknown pattern type", CREATE, create(acl(resource_pattern_type=UNKNOWN))),
    Scenario("for an unknown operation", CREATE, create(acl(operation=UNKNOWN))),
    Scenario("for an unknown permission", CREATE, create(acl(permission_type=UNKNOWN))),
    Scenario("of all topics", DELETE, delete(filtered())),
    Scenario("of all topics, twice", DELETE, delete(filtered(), filtered())),
    Scenario("of nothing", DELETE, delete()),
    Scenario("of an unknown resource type", DELETE, delete(filtered(), filtered(resource_type_filter=UNKNOWN))),
    Scenario("of an unknown pattern type", DELETE, delete(filtered(pattern_type_filter=UNKNOWN))),
    Scenario("of an unknown operation", DELETE, delete(filtered(operation=UNKNOWN))),
    Scenario("of an unknown permission", DELETE, delete(filtered(permission_type=UNKNOWN))),
)

SCENARIOS = SASL + ACLS
