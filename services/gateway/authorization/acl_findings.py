"""What is wrong with the ACLs that a gateway has: it enforces none, or ignores some. Its heartbeats tell operators."""

import logging
from collections.abc import Callable, Sequence

from libs.cluster.health import UNENFORCED_ACLS, UNKNOWN_ACLS
from libs.cluster.image import ClusterImage
from libs.rpc.contracts.controller import Finding
from libs.telemetry.logs import fields

log = logging.getLogger("authorizer")


class AclFindings:
    """Those of one gateway.

    ACLs may be stored where another gateway has an authorizer, or this one had until its settings were lost. ACLs of kinds
    that a later version knows match no request, as in Kafka, and so a DENY among them denies nothing.
    """

    def __init__(self, node_id: int, wall_ms: Callable[[], int], *, has_authorizer: bool) -> None:
        self._name = str(node_id)
        self._wall_ms = wall_ms
        self._has_authorizer = has_authorizer
        self._since_ms: dict[str, int] = {}
        self._ignored = 0

    def follow(self, image: ClusterImage) -> None:
        ignored = len(image.unknown_acls) if self._has_authorizer else 0
        self._note(UNENFORCED_ACLS, not self._has_authorizer and bool(image.acls or image.unknown_acls))
        self._note(UNKNOWN_ACLS, bool(ignored))
        if ignored and ignored != self._ignored:
            log.warning("ACLs of a later version ignored", extra=fields(count=ignored, example=min(image.unknown_acls)))
        self._ignored = ignored

    def findings(self) -> Sequence[Finding]:
        return tuple([Finding(kind, self._name, since_ms) for kind, since_ms in self._since_ms.items()])

    def _note(self, kind: str, is_so: bool) -> None:
        if not is_so:
            self._since_ms.pop(kind, None)
        elif kind not in self._since_ms:
            self._since_ms[kind] = self._wall_ms()
