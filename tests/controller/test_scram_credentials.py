"""Users' SCRAM credentials at the controller: what is refused, as Kafka does, and what the store holds."""

import logging
from collections.abc import Collection

import pytest

from libs.cluster import keys
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.scram_credentials import SCRAM_SHA_256, SCRAM_SHA_512, ScramCredential, decoded
from libs.rpc.contracts.controller import (
    AlterScramCredentials,
    AlterScramCredentialsReply,
    DescribeScramCredentials,
    ScramDeletion,
    ScramResult,
    ScramUpsertion,
    ScramUser,
)
from libs.wire.errors import ErrorCode
from services.controller.administration.audit_log import log_changes
from services.controller.administration.scram_credentials import change_scram_credentials, describe_scram_credentials
from services.controller.core.administration.scram_credentials import (
    USER_CHANGES_MAX,
    USER_NAME_MAX,
    ScramAlteration,
    alter_scram_credentials,
)
from services.controller.recovery.store_contents import read_store
from services.controller.term import writes
from services.controller.term.fenced_writer import Conflict
from tests.controller.running_controller import RunningController, running_controller, story

SALT = b"sixteen bytes of"
TWICE = "A user credential cannot be altered twice in the same request"


def sets(user: str, mechanism: int = 1, iterations: int = 4096, salt: bytes = SALT) -> ScramUpsertion:
    return ScramUpsertion(user, mechanism, iterations, salt, b"stored", b"server")


def deletes(user: str, mechanism: int = 1) -> ScramDeletion:
    return ScramDeletion(user, mechanism)


def alter(*changes: ScramDeletion | ScramUpsertion, there: Collection[tuple[str, str]] = ()) -> ScramAlteration:
    deletions = tuple([change for change in changes if isinstance(change, ScramDeletion)])
    upsertions = tuple([change for change in changes if isinstance(change, ScramUpsertion)])
    return alter_scram_credentials(lambda m, user: (m, user) in there, AlterScramCredentials(deletions, upsertions))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (sets(""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (sets("u", 0), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (sets("u", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (sets("u", 1, 4095), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (sets("u", 2, 16_385), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (sets("u", salt=b"11 bytes on"), ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salt has less than 12 bytes"),
        (deletes(""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (deletes("u", 0), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (deletes("u"), ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"),
    ],
)
def test_a_bad_change_is_refused_in_kafkas_words(change: ScramDeletion | ScramUpsertion, error: ErrorCode, message: str) -> None:
    altered = alter(change)
    assert altered.changes == {}
    assert altered.results == (ScramResult(change.user, error, message),)


@pytest.mark.parametrize("name", ["I\u00adX", "a\u00a0b", "u\n", "x" * (USER_NAME_MAX + 1)])
def test_a_name_that_saslprep_would_change_is_refused(name: str) -> None:
    (result,) = alter(sets(name)).results
    assert result.error == ErrorCode.UNACCEPTABLE_CREDENTIAL
    assert alter(deletes(name), there=[(SCRAM_SHA_256, name)]).results == (ScramResult(name, 0),)


@pytest.mark.parametrize("changes", [(sets("u"), sets("u", 2)), (deletes("u"), sets("u", 2)), (deletes("u"), deletes("u"))])
def test_a_user_who_is_named_twice_has_nothing_changed(changes: tuple[ScramDeletion | ScramUpsertion, ...]) -> None:
    altered = alter(*changes, sets("v"), there=[(SCRAM_SHA_256, "u")])
    assert altered.results == (ScramResult("u", ErrorCode.DUPLICATE_RESOURCE, TWICE), ScramResult("v", 0)) or (
        altered.results == (ScramResult("v", 0), ScramResult("u", ErrorCode.DUPLICATE_RESOURCE, TWICE))
    )
    assert list(altered.changes) == [(SCRAM_SHA_256, "v")]


def test_the_first_refusal_of_a_user_is_the_answer() -> None:
    altered = alter(sets("u", 1, 1), sets("u"), sets("u", 9))
    assert altered.results == (ScramResult("u", ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),)


def test_more_users_than_a_transaction_holds_are_refused_together() -> None:
    altered = alter(*[sets(str(number)) for number in range(USER_CHANGES_MAX + 1)])
    assert altered.changes == {}
    assert {result.error for result in altered.results} == {ErrorCode.INVALID_REQUEST}


async def change(running: RunningController, *changes: ScramDeletion | ScramUpsertion) -> AlterScramCredentialsReply:
    deletions = tuple([each for each in changes if isinstance(each, ScramDeletion)])
    upsertions = tuple([each for each in changes if isinstance(each, ScramUpsertion)])
    request = AlterScramCredentials(deletions, upsertions)
    return await running.controller.administer(lambda own, term: change_scram_credentials(own, term, request))


async def described(running: RunningController) -> tuple[ScramUser, ...]:
    question = DescribeScramCredentials()
    return (await running.controller.administer(lambda own, term: describe_scram_credentials(own, term, question))).users


@story
async def test_credentials_are_stored_outside_the_image_and_the_next_controller_knows_them() -> None:
    store = MemoryStore()
    async with running_controller(store) as running:
        await running.elected()
        most = [str(number) for number in range(USER_CHANGES_MAX)]
        reply = await change(running, *[sets(user, 2) for user in most])
        assert {result.error for result in reply.users} == {0}
        secret = await store.get(keys.SCRAM_SECRET)
        assert secret is not None
        assert len(secret.value) > 32
        assert secret.value.decode().isprintable(), "a line of a backup holds it"
        assert [r.error for r in (await change(running, sets("u"), sets("v", 7))).users] == [0, 33]
        stored = await store.get(keys.scram_credential(SCRAM_SHA_256, "u"))
        assert stored is not None
        assert decoded(stored.value) == ScramCredential(SALT, b"stored", b"server", 4096)
    async with running_controller(store.peer(), 2) as running:
        await running.elected()
        assert ScramUser("u", ((1, 4096),)) in await described(running)
        assert [r.error for r in (await change(running, deletes("u"), *[deletes(user, 2) for user in most[1:]])).users] == [
            0
        ] * 60
        assert await described(running) == (ScramUser("0", ((2, 4096),)),)
        kept = await store.get(keys.SCRAM_SECRET)
        assert kept is not None
        assert kept.value == secret.value
        backup = await read_store(store, 1)
        assert b"cluster_id" in backup
        assert b"stored_key" not in backup
        assert b"scram" not in backup


@story
async def test_a_late_write_is_not_applied_after_another_one() -> None:
    async with running_controller(MemoryStore()) as running:
        await running.elected()
        term = running.controller.active_term()
        before = {item.key: item for item in (await term.stored_scram()).items}
        credential = ScramCredential(SALT, b"stored", b"server", 4096)
        late = writes.scram_changes(before, {(SCRAM_SHA_512, "late"): credential}, b"secret")
        await change(running, sets("u"))
        await change(running, deletes("u"))
        with pytest.raises(Conflict):
            await term.apply(late)
        assert await described(running) == ()


def test_the_audit_log_tells_who_and_never_what(caplog: pytest.LogCaptureFixture) -> None:
    request = AlterScramCredentials((deletes("gone"),), (sets("u", 2), sets("refused", 9)), asked_by="admin")
    results = tuple([ScramResult(user, error) for user, error in (("gone", 0), ("u", 0), ("refused", 33))])
    with caplog.at_level(logging.INFO, "controller"):
        log_changes(request, AlterScramCredentialsReply(results, 1))
    lines = [(record.message, record.__dict__["fields"]) for record in caplog.records]
    assert lines == [
        ("credential deleted", {"user": "gone", "mechanism": SCRAM_SHA_256, "asked_by": "admin"}),
        ("credential set", {"user": "u", "mechanism": SCRAM_SHA_512, "iterations": 4096, "asked_by": "admin"}),
    ]
    assert "stored" not in repr(request)
