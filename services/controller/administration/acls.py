"""CreateAcls and DeleteAcls: ACLs are created and deleted, `writes.ACL_BATCH` of them in one transaction."""

import asyncio
from typing import Final

from libs.cluster.acls import AclBinding
from libs.rpc.contracts.controller import (
    Acl,
    AclResult,
    CreateAcls,
    CreateAclsReply,
    DeleteAcls,
    DeleteAclsReply,
    DeletedAcls,
)
from libs.wire.errors import ErrorCode
from services.controller.administration.administration import Administration, Progress, attempts
from services.controller.core.administration.acls import AclCreation, AclDeletion
from services.controller.core.model.refusal import Refused
from services.controller.term import writes
from services.controller.term.term import Term

ACLS_PER_TURN: Final = 500
"""The ACLs that are checked before others have a turn. Each takes some 9 µs."""


async def create_acls(administration: Administration, term: Term, request: CreateAcls) -> CreateAclsReply:
    """Raises Deposed. Some of the ACLs may have been created by then: a second request creates the others."""
    created: set[AclBinding] = set()
    decided: list[AclBinding | Refused] = []

    async def attempt(progress: Progress) -> None:
        nonlocal decided
        image = term.image
        creation = AclCreation(image.acls)
        for start in range(0, len(request.acls), ACLS_PER_TURN):
            creation.decide(request.acls[start : start + ACLS_PER_TURN])
            await asyncio.sleep(0)
        decided = creation.results
        created.update(creation.new)
        progress.revision = await term.commit_all(writes.acl_creation(image, creation.new)) or image.revision

    progress = await attempts(term, attempt)
    stored = term.image.acls.bindings
    results = []
    for each in decided:
        if isinstance(each, Refused):
            results.append(AclResult(each.error, each.message))
        elif each in stored:
            results.append(AclResult(ErrorCode.NONE, created=each in created))
            created.discard(each)
        else:
            results.append(AclResult(progress.error, progress.message))
    return CreateAclsReply(tuple(results), progress.revision)


async def delete_acls(administration: Administration, term: Term, request: DeleteAcls) -> DeleteAclsReply:
    """Raises Deposed if nothing was deleted."""
    matched: list[dict[AclBinding, None]] = [{} for _ in request.filters]
    refused: dict[int, Refused] = {}
    deleted: dict[AclBinding, None] = {}

    async def attempt(progress: Progress) -> None:
        image = term.image
        deletion = AclDeletion(image.acls)
        refused.clear()
        for at, each in enumerate(request.filters):
            try:
                matched[at].update(dict.fromkeys(deletion.matched(each)))
            except Refused as refusal:
                refused[at] = refusal
            await asyncio.sleep(0)
        wanted = dict.fromkeys([each for at, found in enumerate(matched) if at not in refused for each in found])
        left = [each for each in wanted if each in image.acls.bindings]
        for write, gone in writes.acl_deletion(image, left):
            progress.revision = await term.commit(write)
            deleted.update(dict.fromkeys(gone))

    progress = await attempts(term, attempt)
    results = []
    for at, found in enumerate(matched):
        if at in refused:
            results.append(DeletedAcls(refused[at].error, refused[at].message))
            continue
        done = tuple([_told(each) for each in found if each in deleted])
        error, message = (ErrorCode.NONE, None) if len(done) == len(found) else (progress.error, progress.message)
        results.append(DeletedAcls(error, message, done))
    return DeleteAclsReply(tuple(results), progress.revision)


def _told(binding: AclBinding) -> Acl:
    kind, pattern_type, name, principal, host, operation, permission = binding
    return Acl(int(kind), int(pattern_type), name, principal, host, int(operation), int(permission))
