"""ACLs that a test puts into the metadata store of a rig, and takes away."""

from libs.cluster import keys
from libs.cluster.acls import CLUSTER_NAME, AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from libs.cluster.records import AclRecord
from libs.cluster.store import Delete
from tests.gateway.conftest import Rig

ANONYMOUS = "User:ANONYMOUS"


def acl(
    operation: AclOperation,
    resource_type: ResourceType,
    name: str = CLUSTER_NAME,
    principal: str = ANONYMOUS,
    *,
    pattern_type: PatternType = PatternType.LITERAL,
    permission: AclPermission = AclPermission.ALLOW,
) -> AclBinding:
    return AclBinding(resource_type, pattern_type, name, principal, "*", operation, permission)


async def grant(rig: Rig, *bindings: AclBinding) -> None:
    """Returns once the gateway knows them."""
    for binding in bindings:
        await rig.put(keys.acl(binding), AclRecord())
    await settled(rig)


async def revoke(rig: Rig, *bindings: AclBinding) -> None:
    """Returns once the gateway knows that they are gone."""
    for binding in bindings:
        await rig.store.txn([], [Delete(keys.acl(binding))])
    await settled(rig)


async def settled(rig: Rig) -> None:
    assert rig.gateway is not None
    assert await rig.gateway.wait_for_revision(rig.store.keyspace.revision, 10)
