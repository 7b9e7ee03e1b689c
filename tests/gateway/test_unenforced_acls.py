"""ACLs that are stored while a gateway has no authorizer: operators hear of that gateway."""

from collections.abc import Callable, Sequence

import pytest

from libs.cluster.acls import AclOperation, ResourceType
from libs.cluster.health import UNENFORCED_ACLS
from libs.rpc.contracts.controller import Finding
from libs.runtime.controllers import Controllers
from tests.gateway.conftest import TOPIC, Rig
from tests.gateway.granted_acls import acl, grant, revoke


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
