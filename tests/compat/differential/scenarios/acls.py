"""DescribeAcls, CreateAcls and DeleteAcls by a super user: what is refused, what is there, and what filters match.

Both systems need an authorizer, so `test_authorization.py` compares these.
"""

from collections.abc import Callable

from tests.compat.differential.scenario import Differs, Fields, Scenario, Step, World

DESCRIBE, CREATE, DELETE = "describe_acls", "create_acls", "delete_acls"
UNKNOWN, ANY, MATCH, NO_SUCH = 0, 1, 2, 99
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, TOKEN, USER = 2, 3, 4, 5, 6, 7
LITERAL, PREFIXED = 3, 4
ALL, READ, WRITE, CREATE_TOKENS, TWO_PHASE_COMMIT = 2, 3, 4, 13, 15
DENY, ALLOW = 2, 3
LATEST = 3
ANY_IS_UNEXPECTED = (Differs("acl-any", "results.*.error_code", -1),)


def acl(**fields: int | str) -> Fields:
    every = {"resource_type": TOPIC, "resource_name": "t", "resource_pattern_type": LITERAL, "operation": READ}
    return {**every, "principal": "User:a", "host": "*", "permission_type": ALLOW, **fields}


def filtered(**fields: int | str | None) -> Fields:
    every = {"resource_type_filter": TOPIC, "pattern_type_filter": ANY, "operation": ANY, "permission_type": ANY}
    return {**every, **fields}


def exactly(created: Fields) -> Fields:
    """The filter that only this ACL matches."""
    return {
        "resource_type_filter": created["resource_type"],
        "resource_name_filter": created["resource_name"],
        "pattern_type_filter": created["resource_pattern_type"],
        "principal_filter": created["principal"],
        "host_filter": created["host"],
        "operation": created["operation"],
        "permission_type": created["permission_type"],
    }


def create(*acls: Fields) -> Callable[[World], Fields]:
    return lambda world: {"creations": list(acls)}


def delete(*filters: Fields) -> Callable[[World], Fields]:
    return lambda world: {"filters": list(filters)}


def there(*acls: Fields) -> Callable[[World], list[Step]]:
    return lambda world: [Step(CREATE, LATEST, {"creations": list(acls)})]


def beside(name: str, *, differs: tuple[Differs, ...] = (), **fields: int | str) -> Scenario:
    """An ACL that may be refused beside one that is created."""
    return Scenario(name, CREATE, create(acl(**fields), acl(resource_name="beside")), [LATEST], differs=differs)


def matching(name: str, **fields: int | str | None) -> Scenario:
    return Scenario(name, DESCRIBE, lambda world: filtered(**fields), [LATEST], before=there(*MATCHED))


MATCHED = (
    acl(resource_name="matched-one"),
    acl(resource_name="matched-one", principal="User:b", host="10.0.0.1", operation=WRITE, permission_type=DENY),
    acl(resource_name="matched-two", principal="Group:g"),
    acl(resource_name="matched-", resource_pattern_type=PREFIXED, operation=ALL),
    acl(resource_name="*", operation=TWO_PHASE_COMMIT),
    acl(resource_name="matched-one", resource_type=GROUP),
    acl(resource_name="kafka-cluster", resource_type=CLUSTER),
)

CREATED = (
    Scenario("one", CREATE, create(acl())),
    Scenario("one, twice", CREATE, create(acl(), acl())),
    Scenario("one that is there", CREATE, create(acl(resource_name="there")), before=there(acl(resource_name="there"))),
    Scenario("none", CREATE, create()),
    beside("for a principal without a type", principal="a"),
    beside("for no principal", principal=""),
    beside("for a type without a name", principal="User:"),
    beside("for a name without a type", principal=":a"),
    beside("for a resource without a name", resource_name=""),
    beside("for any resource type", differs=ANY_IS_UNEXPECTED, resource_type=ANY),
    beside("for a resource type that is none", resource_type=NO_SUCH),
    beside("for any pattern type", differs=ANY_IS_UNEXPECTED, resource_pattern_type=ANY),
    beside("for a pattern that matches", differs=ANY_IS_UNEXPECTED, resource_pattern_type=MATCH),
    beside("for a pattern type that is none", resource_pattern_type=NO_SUCH),
    beside("for any operation", differs=ANY_IS_UNEXPECTED, operation=ANY),
    beside("for an operation that is none", operation=NO_SUCH),
    beside("for any permission", differs=ANY_IS_UNEXPECTED, permission_type=ANY),
    beside("for a permission that is none", permission_type=NO_SUCH),
    beside("for another cluster", resource_type=CLUSTER, resource_name="mine"),
    beside("for all clusters", resource_type=CLUSTER, resource_name="*"),
    beside("for a host that is none", host="not an address"),
    beside("for no host", host=""),
    beside("for a transactional id", resource_type=TRANSACTIONAL_ID, resource_name="a/b c"),
    beside("for a token", resource_type=TOKEN),
    beside("for a user", resource_type=USER, operation=CREATE_TOKENS),
)

DESCRIBED = (
    Scenario("of one name", DESCRIBE, lambda world: filtered(resource_name_filter="matched-one"), before=there(*MATCHED)),
    matching("of a name", resource_name_filter="matched-one"),
    matching("of a literal", resource_name_filter="matched-one", pattern_type_filter=LITERAL),
    matching("of a prefix", resource_name_filter="matched-", pattern_type_filter=PREFIXED),
    matching("of what is no prefix", resource_name_filter="matched-one", pattern_type_filter=PREFIXED),
    matching("that hold for a name", resource_name_filter="matched-one", pattern_type_filter=MATCH),
    matching(
        "that hold for a name of any type",
        resource_type_filter=ANY,
        resource_name_filter="matched-one",
        pattern_type_filter=MATCH,
    ),
    matching("of all names", resource_name_filter="*"),
    matching("that hold for all names", resource_name_filter="*", pattern_type_filter=MATCH),
    matching("of a user", resource_name_filter="matched-one", principal_filter="User:b"),
    matching("of everybody", principal_filter="User:*"),
    matching("of a host", resource_name_filter="matched-one", host_filter="10.0.0.1"),
    matching("of an operation", resource_name_filter="matched-one", operation=WRITE),
    matching("of all operations", resource_name_filter="matched-", operation=ALL),
    matching("that deny", resource_name_filter="matched-one", permission_type=DENY),
    matching("of the cluster", resource_type_filter=CLUSTER, resource_name_filter="kafka-cluster"),
    matching("of an empty name", resource_name_filter=""),
    matching("of a resource type that is none", resource_type_filter=NO_SUCH),
    matching("of a pattern type that is none", pattern_type_filter=NO_SUCH),
    matching("of an operation that is none", operation=NO_SUCH),
    matching("of a permission that is none", permission_type=NO_SUCH),
    Scenario(
        "of an address",
        DESCRIBE,
        lambda world: filtered(resource_name_filter="addressed"),
        before=there(acl(resource_name="addressed", host="0:0:0:0:0:0:0:1")),
        differs=(Differs("acl-addresses", "resources.*.acls.*.host", "0:0:0:0:0:0:0:1", "::1"),),
    ),
)

GONE = (
    acl(resource_name="gone"),
    acl(resource_name="gone", principal="User:b"),
    acl(resource_name="go", resource_pattern_type=PREFIXED),
)


def deleting(name: str, *filters: Fields) -> Scenario:
    return Scenario(name, DELETE, delete(*filters), [LATEST], before=there(*GONE))


DELETED = (
    Scenario("one", DELETE, delete(exactly(GONE[0])), before=there(*GONE)),
    deleting("one, twice", exactly(GONE[0]), exactly(GONE[0])),
    deleting("of a name", filtered(resource_name_filter="gone")),
    deleting("that hold for a name", filtered(resource_name_filter="gone", pattern_type_filter=MATCH, principal_filter="User:a")),
    deleting("of a name, and of a user", filtered(resource_name_filter="gone"), filtered(principal_filter="User:b")),
    deleting("of what is not there", filtered(resource_name_filter="never")),
    deleting("of a type that is none", filtered(resource_type_filter=NO_SUCH), exactly(GONE[0])),
    deleting("of a pattern type that is none", filtered(pattern_type_filter=NO_SUCH)),
    deleting("of an operation that is none", filtered(operation=NO_SUCH)),
    deleting("of a permission that is none", filtered(permission_type=NO_SUCH)),
    Scenario("of nothing", DELETE, delete()),
)

SCENARIOS = (*CREATED, *DESCRIBED, *DELETED)
