"""What a gateway tells operators of its ACLs: it has no authorizer, does not know some, or differs from others."""

from collections.abc import Callable, Sequence

import pytest

from libs.cluster import keys
from libs.cluster.acls import AclOperation, ResourceType
from libs.cluster.health import DIFFERENT_AUTHORIZERS, UNENFORCED_ACLS, UNKNOWN_ACLS
from libs.cluster.records import GATEWAY, AclRecord, Member, Topic
from libs.cluster.store import Delete
from libs.rpc.contracts.controller import Finding
from libs.runtime.controllers import Controllers
from services.gateway.core.authorizer_settings import KAFKAS_CLASS, settings_digest
from tests.gateway.conftest import TOPIC, Rig
from tests.gateway.granted_acls import acl, grant, revoke, settled


async def test_controllers_hear_of_acls_that_a_gateway_without_an_authorizer_ignores(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[Callable[[], Sequence[Finding]]] = []
    monkeypatch.setattr(Controllers, "report_findings", lambda _, findings: reported.append(findings))
    await rig.start()
    assert reported[0]() == ()
    await grant(rig, acl(AclOperation.DESCRIBE, ResourceType.TOPIC, TOPIC))
    (found,) = reported[0]()
    assert (found.kind, found.name) == (UNENFORCED_ACLS, "1")
    await revoke(rig, acl(AclOperation.DESCRIBE, ResourceType.TOPIC, TOPIC))
    assert reported[0]() == ()


async def test_a_gateway_with_an_authorizer_reports_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[Callable[[], Sequence[Finding]]] = []
    monkeypatch.setattr(Controllers, "report_findings", lambda _, findings: reported.append(findings))
    await rig.start(authorizer="StandardAuthorizer")
    await grant(rig, acl(AclOperation.DESCRIBE, ResourceType.TOPIC, TOPIC))
    assert reported[0]() == ()


async def test_acls_of_a_later_version_are_named_and_logged_once_for_each_number(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reported: list[Callable[[], Sequence[Finding]]] = []
    monkeypatch.setattr(Controllers, "report_findings", lambda _, findings: reported.append(findings))
    await rig.start(authorizer="StandardAuthorizer")
    later = [keys.ACLS + f"TOPIC/{pattern}/t/User%3Aalice/%2A/READ/DENY" for pattern in ("LATER", "SUFFIX")]
    for key in later:
        await rig.put(key, AclRecord())
    await rig.put(keys.topic("other"), Topic("other", "ab" * 16, 0))
    await settled(rig)
    assert [(each.kind, each.name) for each in reported[0]()] == [(UNKNOWN_ACLS, "1")]
    lines = [line for line in caplog.records if line.getMessage() == "ACLs of a later version ignored"]
    assert [line.__dict__["fields"]["count"] for line in lines] == [1, 2]
    await rig.store.txn([], [Delete(key) for key in later])
    await settled(rig)
    assert reported[0]() == ()


async def test_gateways_with_other_settings_of_the_authorizer_are_named(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[Callable[[], Sequence[Finding]]] = []
    monkeypatch.setattr(Controllers, "report_findings", lambda _, findings: reported.append(findings))
    gateway = await rig.start(authorizer="StandardAuthorizer", super_users="User:a;User:b")
    own = gateway.image.members(GATEWAY)[1].authorizer
    shown = []
    for theirs in (own, "", "another", "none"):
        await rig.put(keys.member(GATEWAY, 2), Member(GATEWAY, 2, 1, "host", authorizer=theirs))
        await settled(rig)
        shown.append([(each.kind, each.name) for each in reported[0]()])
    assert shown == [[], [], [(DIFFERENT_AUTHORIZERS, "1")], [(DIFFERENT_AUTHORIZERS, "1")]]


def test_the_digest_tells_authorizers_apart_that_decide_otherwise() -> None:
    base = settings_digest("StandardAuthorizer", "User:a;User:b", allow_if_no_acl=False)
    assert settings_digest(KAFKAS_CLASS, " User:b ; User:a", allow_if_no_acl=False) == base
    others = [
        settings_digest("StandardAuthorizer", "User:a", allow_if_no_acl=False),
        settings_digest("StandardAuthorizer", "User:a;User:b", allow_if_no_acl=True),
        settings_digest("", "", allow_if_no_acl=False),
    ]
    assert len({base, *others}) == 4
