"""What is wrong with a gateway's ACLs: it enforces none, ignores some, or decides otherwise than another gateway. Its heartbeats
tell operators."""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from libs.cluster.health import DIFFERENT_AUTHORIZERS, UNENFORCED_ACLS, UNKNOWN_ACLS
from libs.cluster.image import ClusterImage
from libs.cluster.records import GATEWAY
from libs.rpc.contracts.controller import Finding
from libs.telemetry.logs import fields
from services.gateway.core.authorizer_settings import NO_AUTHORIZER

log = logging.getLogger("authorizer")

OF_AN_OLDER_VERSION: Final = ""


class AclFindings:
    """Those of one gateway.

    ACLs may be stored where another gateway has an authorizer, or this one had until its settings were lost. ACLs of kinds
    that a later version knows match no request, as in Kafka, and so a DENY among them denies nothing.
    """

    def __init__(self, node_id: int, wall_ms: Callable[[], int], *, authorizer: str) -> None:
        """`authorizer`: the digest of its settings, as the gateway's member record has it."""
        self._node_id = node_id
        self._wall_ms = wall_ms
        self._authorizer = authorizer
        self._has_authorizer = authorizer != NO_AUTHORIZER
        self._since_ms: dict[str, int] = {}
        self._ignored = 0

    def follow(self, image: ClusterImage) -> None:
        ignored = len(image.unknown_acls) if self._has_authorizer else 0
        self._note(UNENFORCED_ACLS, not self._has_authorizer and bool(image.acls or image.unknown_acls))
        self._note(UNKNOWN_ACLS, bool(ignored))
        others = {member.authorizer for node_id, member in image.members(GATEWAY).items() if node_id != self._node_id}
        self._note(DIFFERENT_AUTHORIZERS, bool(others - {self._authorizer, OF_AN_OLDER_VERSION}))
        if ignored and ignored != self._ignored:
            log.warning("ACLs of a later version ignored", extra=fields(count=ignored, example=min(image.unknown_acls)))
        self._ignored = ignored

    def findings(self) -> Sequence[Finding]:
        return tuple([Finding(kind, str(self._node_id), since_ms) for kind, since_ms in self._since_ms.items()])

    def _note(self, kind: str, is_so: bool) -> None:
        if not is_so:
            self._since_ms.pop(kind, None)
        elif kind not in self._since_ms:
            self._since_ms[kind] = self._wall_ms()
