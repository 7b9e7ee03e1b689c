"""AlterUserScramCredentials: which changes of credentials are made, and the answers for refused ones, as Kafka gives them.

A user may be named once in a request, whatever the mechanism. Whoever is named twice has nothing changed.

Two refusals are not Kafka's. A salt of less than `SALT_BYTES_MIN` fits no exchange here. A name that SASLprep would change could
not log in with clients that apply it, or would log in as somebody else.
"""

from collections.abc import Callable, Mapping
from typing import Final

from libs.cluster.scram_credentials import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    MECHANISMS,
    SALT_BYTES_MIN,
    ScramCredential,
    is_prepared,
)
from libs.lean_dataclass import dataclass
from libs.rpc.contracts.controller import AlterScramCredentials, ScramDeletion, ScramResult, ScramUpsertion
from libs.wire.errors import ErrorCode
from services.controller.core.model.refusal import Refused

USER_CHANGES_MAX: Final = 60
"""The credentials that one request may change, since they are written in one transaction of the store."""
USER_NAME_MAX: Final = 1024

_TWICE: Final = "A user credential cannot be altered twice in the same request"


@dataclass(frozen=True, slots=True)
class ScramAlteration:
    """The credentials to write, by (mechanism, user); None is a deletion. `results` has each user of the request once."""

    changes: Mapping[tuple[str, str], ScramCredential | None]
    results: tuple[ScramResult, ...]


def alter_scram_credentials(exists: Callable[[str, str], bool], request: AlterScramCredentials) -> ScramAlteration:
    """`exists` tells whether a user has a credential of a mechanism."""
    changes: dict[str, tuple[str, ScramCredential | None]] = {}
    refusals: dict[str, Refused] = {}
    order: dict[str, None] = {}
    asked: list[ScramDeletion | ScramUpsertion] = [*request.deletions, *request.upsertions]
    for change in asked:
        user = change.user
        order[user] = None
        if user in refusals:
            continue
        try:
            if changes.pop(user, None) is not None:
                raise Refused(ErrorCode.DUPLICATE_RESOURCE, _TWICE)
            changes[user] = checked(exists, change)
        except Refused as refusal:
            refusals[user] = refusal
    if len(changes) > USER_CHANGES_MAX:
        message = f"A request may change the credentials of {USER_CHANGES_MAX} users"
        refusals |= dict.fromkeys(changes, Refused(ErrorCode.INVALID_REQUEST, message))
        changes = {}
    results = []
    for user in order:
        refused = refusals.get(user)
        results.append(ScramResult(user, refused.error, refused.message) if refused else ScramResult(user, ErrorCode.NONE))
    return ScramAlteration({(mechanism, user): credential for user, (mechanism, credential) in changes.items()}, tuple(results))


def checked(exists: Callable[[str, str], bool], change: ScramDeletion | ScramUpsertion) -> tuple[str, ScramCredential | None]:
    """The mechanism, and the credential to write. Raises Refused, in Kafka's words and order."""
    if not change.user:
        raise _unacceptable("Username must not be empty")
    mechanism = MECHANISMS.get(change.mechanism)
    if mechanism is None:
        raise Refused(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, ScramDeletion):
        if not exists(mechanism, change.user):
            raise Refused(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
        return mechanism, None
    if change.iterations < ITERATIONS_MIN:
        raise _unacceptable("Too few iterations")
    if change.iterations > ITERATIONS_MAX:
        raise _unacceptable("Too many iterations")
    if len(change.salt) < SALT_BYTES_MIN:
        raise _unacceptable(f"The salt has less than {SALT_BYTES_MIN} bytes")
    if len(change.user) > USER_NAME_MAX or not is_prepared(change.user):
        raise _unacceptable(f"Username must be as SASLprep (RFC 4013) leaves it, and have at most {USER_NAME_MAX} characters")
    return mechanism, ScramCredential(change.salt, change.stored_key, change.server_key, change.iterations)


def _unacceptable(message: str) -> Refused:
    return Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)
