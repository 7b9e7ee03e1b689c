"""ACLs that are stored, and decide nothing at a gateway without an authorizer.

Another gateway may have one, or this one had until its settings were lost. Its heartbeats tell operators.
"""

from collections.abc import Callable, Sequence

from libs.cluster.health import UNENFORCED_ACLS
from libs.cluster.image import ClusterImage
from libs.rpc.contracts.controller import Finding


class UnenforcedAcls:
    """That of one gateway."""

    def __init__(self, node_id: int, wall_ms: Callable[[], int], *, has_authorizer: bool) -> None:
        self._name = str(node_id)
        self._wall_ms = wall_ms
        self._has_authorizer = has_authorizer
        self._since_ms: int | None = None

    def follow(self, image: ClusterImage) -> None:
        if self._has_authorizer or not len(image.acls):
            self._since_ms = None
        elif self._since_ms is None:
            self._since_ms = self._wall_ms()

    def findings(self) -> Sequence[Finding]:
        return () if self._since_ms is None else (Finding(UNENFORCED_ACLS, self._name, self._since_ms),)
