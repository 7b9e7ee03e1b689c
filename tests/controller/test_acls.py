"""ACLs at the controller: what is refused, as Kafka does, and what the store holds."""

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from libs.cluster import keys
from libs.cluster.acl_index import AclIndex
from libs.cluster.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.standard_authorizer import StandardAuthorizer
from libs.rpc.contracts.controller import (
    Acl,
    AclResult,
    CreateAcls,
    CreateAclsReply,
    DeleteAcls,
    DeleteAclsReply,
    DeletedAcls,
    FilteredAcls,
)
from libs.wire.errors import ErrorCode
from services.controller.administration.acls import create_acls, delete_acls
from services.controller.administration.audit_log import LINES_MAX, log_changes
from services.controller.core.administration import acls as core
from services.controller.core.administration.acls import ACL_KEY_MAX, CHANGES_MAX, AclCreation, AclDeletion
from services.controller.core.model.refusal import Refused
from services.controller.term import writes
from services.controller.term.fenced_writer import Conflict
from tests.controller.running_controller import RunningController, running_controller, story

TOPIC, GROUP, CLUSTER, LITERAL, PREFIXED, MATCH, READ, WRITE, DENY, ALLOW, ANY = 2, 3, 4, 3, 4, 2, 3, 4, 2, 3, 1
EVERYTHING = FilteredAcls(ANY, ANY, None, None, None, ANY, ANY)
NO_COLON = "(no colon is present separating the principal type from the principal name)"


def acl(name: str = "t", **fields: Any) -> Acl:
    values = {
        "resource_type": TOPIC,
        "pattern_type": LITERAL,
        "principal": "User:a",
        "host": "*",
        "operation": READ,
        "permission": ALLOW,
    }
    return Acl(name=name, **{**values, **fields})


def binding(name: str = "t", host: str = "*") -> AclBinding:
    return AclBinding(ResourceType.TOPIC, PatternType.LITERAL, name, "User:a", host, AclOperation.READ, AclPermission.ALLOW)


def creation_of(*asked: Acl, there: Sequence[AclBinding] = ()) -> AclCreation:
    creation = AclCreation(AclIndex.of(*there))
    creation.decide(asked)
    return creation


def decided(*asked: Acl, there: Sequence[AclBinding] = ()) -> list[tuple[int, str | None]]:
    results = creation_of(*asked, there=there).results
    return [(each.error, each.message) if isinstance(each, Refused) else (0, None) for each in results]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        # Kafka's AclControlManagerTest and AclApis
        (acl("kafka", resource_type=CLUSTER), "The only valid name for the CLUSTER resource is kafka-cluster"),
        (acl("*", resource_type=CLUSTER), "The only valid name for the CLUSTER resource is kafka-cluster"),
        (acl(""), "Invalid empty resource name"),
        (acl(resource_type=99), "Invalid resourceType UNKNOWN"),
        (acl(resource_type=ANY), "Invalid resourceType ANY"),
        (acl(pattern_type=MATCH), "Invalid patternType MATCH"),
        (acl(pattern_type=ANY), "Invalid patternType ANY"),
        (acl(pattern_type=-1), "Invalid patternType UNKNOWN"),
        (acl(operation=ANY), "Invalid operation ANY"),
        (acl(operation=16), "Invalid operation UNKNOWN"),
        (acl(permission=ANY), "Invalid permissionType ANY"),
        (acl(permission=0), "Invalid permissionType UNKNOWN"),
        (acl(principal="a"), f"Could not parse principal from `a` {NO_COLON}"),
        (acl(principal=""), f"Could not parse principal from `` {NO_COLON}"),
    ],
)
def test_a_bad_acl_is_refused_in_kafkas_words(asked: Acl, message: str) -> None:
    assert decided(asked, acl()) == [(ErrorCode.INVALID_REQUEST, message), (0, None)]


@pytest.mark.parametrize("text", ["n" * 102_400, "ü" * 700, "\0" * 1400])
@pytest.mark.parametrize("field", ["name", "principal", "host"])
def test_a_text_that_is_too_long_for_a_key_is_refused(field: str, text: str) -> None:
    ((error, message),) = decided(acl(**{field: f"User:{text}"}))
    assert error == ErrorCode.INVALID_REQUEST
    assert message is not None
    assert str(ACL_KEY_MAX) in message
    assert len(message) < 200


@pytest.mark.parametrize("host", ["a host", "10.0.0.0/8", "a/b", "../../x", "ü\n\0", "", "fe80::1%eth0", "*.*"])
@pytest.mark.parametrize("name", ["*", "/", "a/b", "%2F", "\n\0", "<default>", " "])
def test_a_strange_host_or_name_is_an_acl_like_any_other(host: str, name: str) -> None:
    (made,) = creation_of(acl(name, host=host, resource_type=GROUP)).new
    assert keys.acl_of(keys.acl(made)) == made
    assert (made.name, made.host) == (name, host)


def test_an_acl_that_is_there_or_comes_twice_is_no_error_and_is_written_once() -> None:
    creation = creation_of(acl("t"), acl("u"), acl("u"), there=[binding("t")])
    assert creation.results == [binding("t"), binding("u"), binding("u")]
    assert creation.new == [binding("u")]


def test_addresses_are_stored_in_one_spelling() -> None:
    creation = creation_of(acl(host="0:0:0:0:0:0:0:1"), acl(host="::1"), acl(host="::ffff:10.0.0.1"))
    assert creation.new == [binding(host="::1"), binding(host="10.0.0.1")]


def test_a_cluster_has_no_more_acls_than_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "ACLS_MAX", 2)
    refused = (ErrorCode.POLICY_VIOLATION, "A cluster may have 2 ACLs, and this one has them.")
    assert decided(acl("a"), acl("b"), acl("c"), acl("a"), there=[binding("t")]) == [(0, None), refused, refused, (0, None)]
    assert decided(acl("a"), there=[binding("t"), binding("a")]) == [(0, None)]


def test_more_acls_than_a_request_may_create_are_refused_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "CHANGES_MAX", 2)
    excess = (ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    assert decided(acl("a"), acl(""), acl("b"), acl("c"))[:2] == [excess, (42, "Invalid empty resource name")]
    assert decided(acl("a"), acl("t"), acl("b"), there=[binding("t")]) == [(0, None)] * 3


def one(name: str = "t") -> FilteredAcls:
    """A filter that can match a single ACL."""
    return FilteredAcls(TOPIC, LITERAL, name, "User:a", "*", READ, ALLOW)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (FilteredAcls(99, ANY, None, None, None, ANY, ANY), "Unknown patternFilter."),
        (FilteredAcls(ANY, 99, None, None, None, ANY, ANY), "Unknown patternFilter."),
        (FilteredAcls(ANY, ANY, None, None, None, 99, ANY), "Unknown entryFilter."),
        (FilteredAcls(ANY, ANY, None, None, None, ANY, 99), "Unknown entryFilter."),
    ],
)
def test_a_filter_with_a_number_that_nobody_knows_is_refused(asked: FilteredAcls, message: str) -> None:
    with pytest.raises(Refused, match=message):
        AclDeletion(AclIndex.of(binding())).matched(asked)


def test_filters_match_as_in_kafka_and_addresses_in_any_spelling() -> None:
    stored = AclIndex.of(binding("t"), binding("u"), binding("t", "::1"))
    deletion = AclDeletion(stored)
    assert deletion.matched(EVERYTHING) == list(stored)
    assert deletion.matched(one()) == [binding("t")]
    assert deletion.matched(one("none")) == []
    assert deletion.matched(FilteredAcls(TOPIC, MATCH, "u", None, None, ANY, ANY)) == [binding("u")]
    assert deletion.matched(FilteredAcls(ANY, ANY, None, None, "0:0:0:0:0:0:0:1", ANY, ANY)) == [binding("t", "::1")]


def test_the_filters_of_a_request_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "COMPARISONS_MAX", 5)
    deletion = AclDeletion(AclIndex.of(binding("t"), binding("u")))
    assert [len(deletion.matched(each)) for each in (EVERYTHING, one(), EVERYTHING)] == [2, 1, 2]
    with pytest.raises(Refused, match="too many ACLs"):
        deletion.matched(one())
    monkeypatch.setattr(core, "CHANGES_MAX", 3)
    deletion = AclDeletion(AclIndex.of(binding("t"), binding("u")))
    deletion.matched(EVERYTHING)
    with pytest.raises(Refused, match=f"Cannot remove more than {CHANGES_MAX} acls in a single delete operation."):
        deletion.matched(EVERYTHING)


async def create(running: RunningController, *acls: Acl) -> CreateAclsReply:
    return await running.controller.administer(lambda own, term: create_acls(own, term, CreateAcls(acls)))


async def delete(running: RunningController, *filters: FilteredAcls) -> DeleteAclsReply:
    return await running.controller.administer(lambda own, term: delete_acls(own, term, DeleteAcls(filters)))


@story
async def test_acls_are_stored_and_deleted_and_the_next_controller_knows_them() -> None:
    store = MemoryStore()
    async with running_controller(store) as running:
        await running.elected()
        names = [f"t{number}" for number in range(2 * writes.ACL_BATCH + 1)]
        reply = await create(running, *map(acl, names), acl(""), acl("t0"))
        assert reply.results == (
            *[AclResult(0, created=True) for _ in names],
            AclResult(42, "Invalid empty resource name"),
            AclResult(0),
        )
        assert running.image.revision >= reply.revision
        assert set(running.image.acls) == set(map(binding, names))
        authorizer = StandardAuthorizer(running.image.acls)
        assert authorizer.allows("User:a", "10.0.0.1", AclOperation.READ, ResourceType.TOPIC, "t7")
        again = await create(running, acl("t0"))
        assert again.results == (AclResult(0),)
        assert running.image.acls.generation == authorizer.generation
    async with running_controller(store.peer(), 2) as running:
        await running.elected()
        deleted = await delete(running, one("t0"), FilteredAcls(ANY, 99, None, None, None, ANY, ANY), EVERYTHING)
        assert deleted.filters[0] == DeletedAcls(0, None, (acl("t0"),))
        assert deleted.filters[1].error == ErrorCode.INVALID_REQUEST
        assert {each.name for each in deleted.filters[2].acls} == set(names)
        assert len(running.image.acls) == 0
        assert (await store.range(keys.ACLS)).items == ()
        nothing = await delete(running, one("t0"))
        assert nothing.filters == (DeletedAcls(0),)


@story
async def test_a_late_creation_does_not_bring_a_deleted_acl_back() -> None:
    async with running_controller(MemoryStore()) as running:
        await running.elected()
        (late,) = writes.acl_creation(running.image, [binding("late")])
        await create(running, acl("late"))
        await delete(running, one("late"))
        with pytest.raises(Conflict):
            await running.controller.active_term().commit(late)
        ((late_deletion, _),) = writes.acl_deletion((await with_acl(running)).image, [binding("t")])
        await delete(running, one())
        await create(running, acl())
        with pytest.raises(Conflict):
            await running.controller.active_term().commit(late_deletion)


async def with_acl(running: RunningController) -> RunningController:
    await create(running, acl())
    return running


def test_each_acl_that_was_changed_is_in_the_audit_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "controller")
    asked = CreateAcls((acl("a"), acl("b"), acl("")), asked_by="an admin")
    log_changes(asked, CreateAclsReply((AclResult(0, created=True), AclResult(0), AclResult(42, "no")), 7))
    gone = acl("p", pattern_type=PREFIXED, host="::1", operation=WRITE, permission=DENY)
    log_changes(DeleteAcls((EVERYTHING, EVERYTHING), "an admin"), DeleteAclsReply((DeletedAcls(0, None, (gone,)),) * 2, 7))
    lines = [(record.getMessage(), record.__dict__["fields"]) for record in caplog.records]
    common = {"principal": "User:a", "asked_by": "an admin"}
    assert lines == [
        ("acl created", {"resource": "TOPIC:LITERAL:a", "host": "*", "operation": "READ", "permission": "ALLOW", **common}),
        ("acl deleted", {"resource": "TOPIC:PREFIXED:p", "host": "::1", "operation": "WRITE", "permission": "DENY", **common}),
    ]
    caplog.clear()
    spelt = CreateAcls((acl(host="0:0:0:0:0:0:0:1"),))
    log_changes(spelt, CreateAclsReply((AclResult(0, created=True),), 7))
    assert [record.__dict__["fields"]["host"] for record in caplog.records] == ["::1"]
    caplog.clear()
    many = CreateAcls(tuple([acl(str(number)) for number in range(LINES_MAX + 5)]))
    log_changes(many, CreateAclsReply((AclResult(0, created=True),) * (LINES_MAX + 5), 7))
    assert len(caplog.records) == LINES_MAX + 1
