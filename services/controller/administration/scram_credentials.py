"""SCRAM credentials of users, as the controller reads and writes them. No image holds them, so each request reads them first."""

import secrets
from collections.abc import Mapping
from functools import partial
from typing import Final

from libs.cluster import keys
from libs.cluster.scram_credentials import MECHANISMS, ScramCredentials
from libs.cluster.store import KeyValue
from libs.rpc.contracts.controller import (
    AlterScramCredentials,
    AlterScramCredentialsReply,
    DescribeScramCredentials,
    DescribeScramCredentialsReply,
    ScramUser,
)
from services.controller.administration.administration import Administration
from services.controller.core.administration.scram_credentials import alter_scram_credentials
from services.controller.term import writes
from services.controller.term.fenced_writer import Conflict, OutcomeUnknown
from services.controller.term.term import ATTEMPTS, Term

_NUMBERS: Final = {name: number for number, name in MECHANISMS.items()}
SECRET_BYTES: Final = 32


def new_secret() -> bytes:
    """The secret of a store, as text: a line of a backup holds it."""
    return secrets.token_urlsafe(SECRET_BYTES).encode()


async def change_scram_credentials(
    administration: Administration, term: Term, request: AlterScramCredentials
) -> AlterScramCredentialsReply:
    """Raises Deposed, OutcomeUnknown and StoreUnavailable."""
    for _ in range(ATTEMPTS):
        stored = await _stored(term)
        alteration = alter_scram_credentials(partial(_has, stored), request)
        if alteration.changes:
            try:
                await term.apply(writes.scram_changes(stored, alteration.changes, new_secret()))
            except Conflict:
                continue
        return AlterScramCredentialsReply(alteration.results, term.image.revision)
    raise OutcomeUnknown("the credentials changed each time")


async def describe_scram_credentials(
    administration: Administration, term: Term, request: DescribeScramCredentials
) -> DescribeScramCredentialsReply:
    """Raises StoreUnavailable."""
    credentials = ScramCredentials(b"")
    for item in (await _stored(term)).values():
        credentials.take(item)
    users = [
        ScramUser(user, tuple([(_NUMBERS[mechanism], iterations) for mechanism, iterations in own.items()]))
        for user, own in credentials.users.items()
    ]
    return DescribeScramCredentialsReply(tuple(users), term.image.revision)


def _has(stored: Mapping[str, KeyValue], mechanism: str, user: str) -> bool:
    return keys.scram_credential(mechanism, user) in stored


async def _stored(term: Term) -> dict[str, KeyValue]:
    return {item.key: item for item in (await term.stored_scram()).items}
