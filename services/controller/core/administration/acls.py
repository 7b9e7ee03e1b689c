"""CreateAcls and DeleteAcls: which ACLs are created or deleted, and the answers for refused ones, as Kafka gives them.

Three refusals are not Kafka's: a cluster has `ACLS_MAX` ACLs, an ACL's key in the store has `ACL_KEY_MAX` bytes, and the filters
of one request are compared with ACLs `COMPARISONS_MAX` times.
"""

from collections.abc import Iterable
from typing import Final

from libs.cluster import keys
from libs.cluster.acl_index import AclIndex
from libs.cluster.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
    canonical_host,
    known,
)
from libs.rpc.contracts.controller import Acl, FilteredAcls
from libs.wire.errors import ErrorCode
from services.controller.core.model.refusal import Refused
from services.controller.core.topics.topic_names import shown

ACLS_MAX: Final = 20_000
"""The most ACLs of a cluster."""
CHANGES_MAX: Final = 10_000
"""The most ACLs that one request may create, or delete. As in Kafka."""
ACL_KEY_MAX: Final = 4096
"""The most bytes of an ACL's key in the store. It holds the resource's name, the principal and the host, escaped."""
COMPARISONS_MAX: Final = 2_000_000
"""The most comparisons of ACLs with the filters of one request. They take half a second of the controller's time."""

_TOO_MANY_CREATED: Final = "Unable to perform excessively large batch operation."
_TOO_MANY_DELETED: Final = f"Cannot remove more than {CHANGES_MAX} acls in a single delete operation."


class AclCreation:
    """What the ACLs of one request come to. Give them to `decide` in turn, and then take the `results` and `new`."""

    def __init__(self, acls: AclIndex) -> None:
        self._acls = acls
        self._decided: list[AclBinding | Refused] = []
        self._new: dict[AclBinding, None] = {}

    @property
    def results(self) -> list[AclBinding | Refused]:
        """Each ACL, or why it is refused, in the order of the request."""
        if not self._is_too_large:
            return self._decided
        refused = Refused(ErrorCode.POLICY_VIOLATION, _TOO_MANY_CREATED)
        return [each if isinstance(each, Refused) else refused for each in self._decided]

    @property
    def new(self) -> list[AclBinding]:
        """The ACLs to write, each once."""
        return [] if self._is_too_large else list(self._new)

    @property
    def _is_too_large(self) -> bool:
        return len(self._new) > CHANGES_MAX

    def decide(self, asked: Iterable[Acl]) -> None:
        for each in asked:
            try:
                self._decided.append(self._added(checked(each)))
            except Refused as refusal:
                self._decided.append(refusal)

    def _added(self, binding: AclBinding) -> AclBinding:
        if binding not in self._acls.bindings and binding not in self._new:
            if len(self._acls) + len(self._new) >= ACLS_MAX:
                raise Refused(ErrorCode.POLICY_VIOLATION, f"A cluster may have {ACLS_MAX} ACLs, and this one has them.")
            self._new[binding] = None
        return binding


def checked(asked: Acl) -> AclBinding:
    """Raises Refused, in Kafka's words and order."""
    kind, pattern = known(ResourceType, asked.resource_type), known(PatternType, asked.pattern_type)
    operation, permission = known(AclOperation, asked.operation), known(AclPermission, asked.permission)
    if kind is ResourceType.CLUSTER and asked.name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not asked.name:
        raise _invalid("Invalid empty resource name")
    if kind in (ResourceType.UNKNOWN, ResourceType.ANY):
        raise _invalid(f"Invalid resourceType {kind.name}")
    if pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _invalid(f"Invalid patternType {pattern.name}")
    if operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        raise _invalid(f"Invalid operation {operation.name}")
    if permission not in (AclPermission.DENY, AclPermission.ALLOW):
        raise _invalid(f"Invalid permissionType {permission.name}")
    if ":" not in asked.principal:
        raise _invalid(
            f"Could not parse principal from `{shown(asked.principal)}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    binding = AclBinding(kind, pattern, asked.name, asked.principal, canonical_host(asked.host), operation, permission)
    if len(asked.name) + len(asked.principal) + len(asked.host) > ACL_KEY_MAX or len(keys.acl(binding)) > ACL_KEY_MAX:
        raise _invalid(f"The resource name, the principal and the host are too long: the ACL's key may have {ACL_KEY_MAX} bytes.")
    return binding


class AclDeletion:
    """What the filters of one request match. Ask `matched` for each filter in turn."""

    def __init__(self, acls: AclIndex) -> None:
        self._acls = acls
        self._comparisons = 0
        self._matched = 0

    def matched(self, asked: FilteredAcls) -> list[AclBinding]:
        """Raises Refused."""
        pattern = asked.resource_type, asked.pattern_type, asked.name
        wanted = AclFilter.asked(*pattern, asked.principal, asked.host, asked.operation, asked.permission)
        if 0 in (wanted.resource_type, wanted.pattern_type):
            raise _invalid("Unknown patternFilter.")
        if wanted.is_unknown:
            raise _invalid("Unknown entryFilter.")
        self._comparisons += 1 if wanted.binding is not None else len(self._acls)
        if self._comparisons > COMPARISONS_MAX:
            raise _invalid("The filters of the request match too many ACLs. Name resources, principals and hosts, or send fewer.")
        matching = self._acls.matching(wanted)
        self._matched += len(matching)
        if self._matched > CHANGES_MAX:
            raise _invalid(_TOO_MANY_DELETED)
        return matching


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)
