"""ACLs and their filters, their keys in the store, and the addresses in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.cluster import keys
from libs.cluster.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
    canonical_host,
)
from libs.cluster.codec import RecordError

TOPIC, LITERAL, PREFIXED = ResourceType.TOPIC, PatternType.LITERAL, PatternType.PREFIXED
texts = st.text(max_size=6)
bindings = st.builds(
    AclBinding,
    st.sampled_from(ResourceType),
    st.sampled_from(PatternType),
    texts,
    texts,
    texts,
    st.sampled_from(AclOperation),
    st.sampled_from(AclPermission),
)


def binding(name: str = "foo", pattern_type: PatternType = LITERAL, host: str = "*") -> AclBinding:
    return AclBinding(TOPIC, pattern_type, name, "User:alice", host, AclOperation.READ, AclPermission.ALLOW)


@given(bindings)
def test_the_key_of_an_acl_is_the_whole_acl(acl: AclBinding) -> None:
    assert keys.acl_of(keys.acl(acl)) == acl


def test_a_key_can_be_read_by_people() -> None:
    assert keys.acl(binding("orders-", PREFIXED)) == "/penstock/acls/TOPIC/PREFIXED/orders-/User%3Aalice/%2A/READ/ALLOW"


@pytest.mark.parametrize(
    "rest", ["", "TOPIC", "TOPIC/LITERAL/foo/User:alice/%2A/READ/ALLOW", "TOPIC/LITERAL/a/b/c/User/*/READ/ALLOW"]
)
def test_a_key_that_is_spelt_otherwise_is_refused(rest: str) -> None:
    with pytest.raises(RecordError):
        keys.acl_of(keys.ACLS + rest)


@pytest.mark.parametrize(
    ("pattern_type", "name", "matched"),
    [
        # AuthorizerTest.testAclsFilter, and Kafka's ResourcePatternFilterTest
        (PatternType.ANY, None, "literal foo, literal *, prefix fo, prefix *"),
        (PatternType.MATCH, None, "literal foo, literal *, prefix fo, prefix *"),
        (LITERAL, None, "literal foo, literal *"),
        (PREFIXED, None, "prefix fo, prefix *"),
        (PatternType.ANY, "foo", "literal foo"),
        (PatternType.ANY, "*", "literal *, prefix *"),
        (PatternType.MATCH, "foo", "literal foo, literal *, prefix fo"),
        (PatternType.MATCH, "fo", "literal *, prefix fo"),
        (PatternType.MATCH, "*", "literal *, prefix *"),
        (PatternType.MATCH, "bar", "literal *"),
        (LITERAL, "foo", "literal foo"),
        (LITERAL, "*", "literal *"),
        (PREFIXED, "fo", "prefix fo"),
        (PREFIXED, "foo", ""),
    ],
)
def test_a_filter_matches_patterns(pattern_type: PatternType, name: str | None, matched: str) -> None:
    patterns = {
        f"{word} {name}": (kind, name)
        for word, kind in (("literal", LITERAL), ("prefix", PREFIXED))
        for name in ("foo", "fo", "*")
    }
    shown = ["literal foo", "literal *", "prefix fo", "prefix *"]
    found = AclFilter(TOPIC, pattern_type, name)
    assert ", ".join(each for each in shown if found.matches(binding(patterns[each][1], patterns[each][0]))) == matched


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        (AclFilter(), True),
        (AclFilter(resource_type=ResourceType.GROUP), False),
        (AclFilter(principal="User:alice", host="*"), True),
        (AclFilter(principal="User:*"), False),
        (AclFilter(host="10.0.0.1"), False),
        (AclFilter(operation=AclOperation.READ, permission=AclPermission.ALLOW), True),
        (AclFilter(operation=AclOperation.ALL), False),
        (AclFilter(operation=AclOperation.DESCRIBE), False),
        (AclFilter(permission=AclPermission.DENY), False),
    ],
)
def test_every_field_of_a_filter_has_to_fit(wanted: AclFilter, matches: bool) -> None:
    assert wanted.matches(binding()) is matches


@pytest.mark.parametrize("field", ["resource_type", "pattern_type", "operation", "permission"])
def test_a_filter_with_an_unknown_number_says_so(field: str) -> None:
    kinds = {"resource_type": ResourceType, "pattern_type": PatternType, "operation": AclOperation, "permission": AclPermission}
    assert AclFilter(**{field: kinds[field](0)}).is_unknown
    assert not AclFilter().is_unknown


@pytest.mark.parametrize(
    ("host", "canonical"),
    [
        ("0:0:0:0:0:0:0:1", "::1"),  # as Java prints it
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:DB8::0001", "2001:db8::1"),
        ("10.0.0.1", "10.0.0.1"),
        ("*", "*"),
        ("a name", "a name"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("", ""),
    ],
)
def test_an_address_has_one_spelling(host: str, canonical: str) -> None:
    assert canonical_host(host) == canonical
