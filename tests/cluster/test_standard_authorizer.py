"""Who may do what: scenarios of Kafka's AuthorizerTest as stories, and any ACLs against a model that reads all of them."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.cluster import standard_authorizer
from libs.cluster.acl_index import NO_ACLS, AclEdit, AclIndex
from libs.cluster.acls import ANY_USER, CLUSTER_NAME, WILDCARD, AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from libs.cluster.standard_authorizer import StandardAuthorizer
from tests.support.stories import Command, check_story

STORIES = sorted((Path(__file__).parent / "stories").glob("*.txt"))
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
TOPIC = ResourceType.TOPIC
IMPLIES = {
    AclOperation.DESCRIBE: {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER},
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}
HOST = "10.0.0.1"

# --- stories --------------------------------------------------------------------------------------------------------------


class Stage:
    """Plays the commands of a story on the ACLs of one cluster."""

    def __init__(self) -> None:
        self.acls = NO_ACLS
        self.super_users: frozenset[str] = frozenset()
        self.allow_if_no_acl = False

    def run(self, commands: Sequence[Command]) -> list[str]:
        lines = []
        for command in commands:
            lines += getattr(self, f"_{command.verb}")(command.arguments)
        return lines

    def _settings(self, arguments: dict[str, str]) -> list[str]:
        self.super_users = frozenset(filter(None, [arguments.get("super")]))
        self.allow_if_no_acl = arguments.get("default") == "allow"
        return []

    def _allow(self, arguments: dict[str, str]) -> list[str]:
        return self._change(arguments, ALLOW)

    def _deny(self, arguments: dict[str, str]) -> list[str]:
        return self._change(arguments, DENY)

    def _remove(self, arguments: dict[str, str]) -> list[str]:
        return self._change(arguments, AclPermission[arguments.get("permission", "ALLOW")], add=False)

    def _change(self, arguments: dict[str, str], permission: AclPermission, *, add: bool = True) -> list[str]:
        resource_type, pattern_type, name = resource(arguments)
        operation = AclOperation[arguments["operation"]]
        host = arguments.get("host", WILDCARD)
        binding = AclBinding(resource_type, pattern_type, name, principal(arguments), host, operation, permission)
        edit = AclEdit(self.acls)
        (edit.add if add else edit.remove)(binding)
        self.acls = edit.finish()
        return []

    def _ask(self, arguments: dict[str, str]) -> list[str]:
        resource_type, _, name = resource(arguments)
        operation = AclOperation[arguments["operation"]]
        allowed = self._authorizer().allows(principal(arguments), arguments.get("from", HOST), operation, resource_type, name)
        return ["allowed" if allowed else "denied"]

    def _any(self, arguments: dict[str, str]) -> list[str]:
        resource_type, operation = ResourceType[arguments["type"]], AclOperation[arguments["operation"]]
        allowed = self._authorizer().allows_any(principal(arguments), arguments.get("from", HOST), operation, resource_type)
        return ["allowed" if allowed else "denied"]

    def _authorizer(self) -> StandardAuthorizer:
        return StandardAuthorizer(self.acls, self.super_users, self.allow_if_no_acl)


def principal(arguments: dict[str, str]) -> str:
    return arguments.get("principal") or f"User:{arguments['user']}"


def resource(arguments: dict[str, str]) -> tuple[ResourceType, PatternType, str]:
    """`topic=foo` is a literal, `topics=foo` a prefix."""
    for word in ("topic", "group", "cluster", "transactional_id"):
        for pattern_type, key in ((LITERAL, word), (PREFIXED, word + "s")):
            if key in arguments:
                return ResourceType[word.upper()], pattern_type, arguments[key]
    raise AssertionError(arguments)


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_a_story_of_decisions(path: Path) -> None:
    check_story(path, Stage().run)


OF_A_RESOURCE = [operation for operation in AclOperation if operation > AclOperation.ANY]
IMPLIED = {
    AclOperation.ALL: set(OF_A_RESOURCE),
    **{operation: {operation, AclOperation.DESCRIBE} for operation in IMPLIES[AclOperation.DESCRIBE]},
    AclOperation.ALTER_CONFIGS: {AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS},
}


@pytest.mark.parametrize("operation", OF_A_RESOURCE)
def test_what_an_operation_allows_and_denies_is_what_kafkas_acl_inheritance_says(operation: AclOperation) -> None:
    """AuthorizerTest.testAclInheritance, for each operation."""

    def asked(*permissions: tuple[AclOperation, AclPermission]) -> set[AclOperation]:
        acls = [AclBinding(ResourceType.CLUSTER, LITERAL, CLUSTER_NAME, "User:u", WILDCARD, *each) for each in permissions]
        authorizer = StandardAuthorizer(AclIndex.of(*acls))
        return {each for each in OF_A_RESOURCE if authorizer.allows("User:u", HOST, each, ResourceType.CLUSTER, CLUSTER_NAME)}

    assert asked((operation, ALLOW)) == IMPLIED.get(operation, {operation})
    denied = set(OF_A_RESOURCE) if operation is AclOperation.ALL else {operation}
    assert asked((operation, DENY), (AclOperation.ALL, ALLOW)) == set(OF_A_RESOURCE) - denied


# --- the model ------------------------------------------------------------------------------------------------------------

names = st.sampled_from(["a", "ab", "abc", "b", "*", "hardcode"])
principals = st.sampled_from([ANY_USER, "User:u", "User:v"])
hosts = st.sampled_from([WILDCARD, HOST, "::1"])
operations = st.sampled_from([operation for operation in AclOperation if operation > AclOperation.ANY])
types = st.sampled_from([TOPIC, ResourceType.GROUP])
bindings = st.builds(
    AclBinding,
    types,
    st.sampled_from([LITERAL, PREFIXED]),
    names,
    principals,
    hosts,
    operations,
    st.sampled_from([ALLOW, DENY]),
)
askers = st.tuples(st.sampled_from(["User:u", "User:w"]), st.sampled_from([HOST, "10.0.0.2"]))


def names_it(acl: AclBinding, resource_type: ResourceType, name: str) -> bool:
    if acl.resource_type != resource_type:
        return False
    return name.startswith(acl.name) if acl.pattern_type is PREFIXED else acl.name in (name, WILDCARD)


def is_for(acl: AclBinding, who: str, host: str) -> bool:
    return acl.principal in (who, ANY_USER) and acl.host in (host, WILDCARD)


def model(acls: list[AclBinding], who: str, host: str, operation: AclOperation, kind: ResourceType, name: str) -> bool | None:
    """Kafka's findResult for each ACL. None: no ACL names the resource."""
    naming = [acl for acl in acls if names_it(acl, kind, name)]
    found = [acl for acl in naming if is_for(acl, who, host)]
    exact = {operation, AclOperation.ALL}
    if any(acl.permission is DENY and acl.operation in exact for acl in found):
        return False
    if any(acl.permission is ALLOW and acl.operation in exact | IMPLIES.get(operation, set()) for acl in found):
        return True
    return False if naming else None


@given(st.lists(bindings, max_size=12), st.lists(bindings, max_size=6), askers, operations, types, names, st.booleans())
def test_a_decision_is_that_of_a_model_which_reads_every_acl(
    added: list[AclBinding],
    removed: list[AclBinding],
    asker: tuple[str, str],
    operation: AclOperation,
    kind: ResourceType,
    name: str,
    default: bool,
) -> None:
    edit = AclEdit(AclIndex.of(*added))
    for acl in removed + added[::3]:
        edit.remove(acl)
    index = edit.finish()
    left = [acl for acl in added if acl not in removed and acl not in added[::3]]
    assert set(index) == set(left)
    expected = model(left, *asker, operation, kind, name)
    authorizer = StandardAuthorizer(index, allow_if_no_acl=default)
    assert authorizer.allows(*asker, operation, kind, name) == (default if expected is None else expected)


@given(st.lists(bindings, max_size=10), askers, st.sampled_from([AclOperation.WRITE, AclOperation.DESCRIBE]))
def test_whether_any_resource_is_allowed_is_decided_as_kafka_walks_its_acls(
    acls: list[AclBinding], asker: tuple[str, str], operation: AclOperation
) -> None:
    expected = model(acls, *asker, operation, TOPIC, "hardcode") or any_model(acls, *asker, operation)
    assert StandardAuthorizer(AclIndex.of(*acls)).allows_any(*asker, operation, TOPIC) == expected


def any_model(acls: list[AclBinding], who: str, host: str, operation: AclOperation) -> bool:
    """Kafka's authorizeByResourceType after its first question."""
    found = [
        acl
        for acl in acls
        if acl.resource_type is TOPIC and is_for(acl, who, host) and acl.operation in (operation, AclOperation.ALL)
    ]
    literal = {
        each: {acl.name for acl in found if acl.pattern_type is LITERAL and acl.permission is each} for each in (ALLOW, DENY)
    }
    prefixed = {
        each: {acl.name for acl in found if acl.pattern_type is PREFIXED and acl.permission is each} for each in (ALLOW, DENY)
    }
    if WILDCARD in literal[DENY]:
        return False
    if WILDCARD in literal[ALLOW]:
        return True
    candidates = (literal[ALLOW] - literal[DENY]) | prefixed[ALLOW]
    return any(not name.startswith(tuple(prefixed[DENY])) for name in candidates)


# --- the index ------------------------------------------------------------------------------------------------------------


def binding(number: int = 0, *, name: str = "") -> AclBinding:
    return AclBinding(TOPIC, LITERAL, name or f"t{number}", f"User:u{number}", WILDCARD, AclOperation.READ, ALLOW)


def test_the_generation_changes_with_the_acls_and_with_nothing_else() -> None:
    both, other_order = AclIndex.of(binding(1), binding(2)), AclIndex.of(binding(2), binding(1))
    assert both.generation == other_order.generation != AclIndex.of(binding(1)).generation
    edit = AclEdit(both)
    edit.add(binding(1))
    edit.remove(binding(3))
    assert edit.finish() is both
    edit.remove(binding(1))
    edit.remove(binding(2))
    emptied = edit.finish()
    assert (emptied.generation, emptied, len(both)) == (0, NO_ACLS, 2)
    assert not emptied.subjects
    assert not emptied.resources


def test_an_edit_leaves_the_earlier_index_as_it_was() -> None:
    before = AclIndex.of(binding(1))
    authorizer = StandardAuthorizer(before)
    edit = AclEdit(before)
    edit.remove(binding(1))
    edit.add(binding(2))
    after = StandardAuthorizer(edit.finish())
    question = (HOST, AclOperation.READ, TOPIC)
    assert [each.allows("User:u1", *question, "t1") for each in (authorizer, after)] == [True, False]
    assert [each.allows("User:u2", *question, "t2") for each in (authorizer, after)] == [False, True]


def test_decisions_are_remembered_up_to_a_bound_and_long_names_never(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standard_authorizer, "DECISIONS_MAX", 2)
    authorizer = StandardAuthorizer(AclIndex.of(binding(1), binding(name="n" * 1000)))
    asked = []
    monkeypatch.setattr(StandardAuthorizer, "_decided", lambda *question: asked.append(question[-1]) or True)
    for name in ["a", "a", "b", "a", "c", "c", "a", "n" * 1000, "n" * 1000]:
        assert authorizer.allows("User:u1", HOST, AclOperation.READ, TOPIC, name)
    assert asked == ["a", "b", "c", "a", "n" * 1000, "n" * 1000]


def test_a_decision_probes_a_few_maps_however_many_acls_there_are() -> None:
    class Counting(dict):  # type: ignore[type-arg]
        probes = 0

        def get(self, key, default=None):  # type: ignore[no-untyped-def]
            Counting.probes += 1
            return super().get(key, default)

    def probes(acls: int) -> int:
        index = AclIndex.of(*map(binding, range(acls)))
        Counting.probes = 0
        counted = AclIndex(index.bindings, index.generation, Counting(index.subjects), Counting(index.resources))
        StandardAuthorizer(counted, allow_if_no_acl=True).allows("User:none", HOST, AclOperation.READ, TOPIC, "t1")
        return Counting.probes

    assert probes(2000) == probes(20)
